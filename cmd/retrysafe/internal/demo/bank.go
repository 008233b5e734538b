package demo

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// atBank is how long the bank takes for a charge.
const atBank = 300 * time.Millisecond

// chargeKeyHeader tells POST /v2/charges which charge a request is about.
const chargeKeyHeader = "Charge-Key"

// bank is the payments API that needs protection: every request to POST /charges takes money. POST /v2/charges is a
// little better, as many real ones are: it makes one charge per Charge-Key.
type bank struct {
	ledger  *ledger
	running sync.WaitGroup

	mu          sync.Mutex
	chargedFunc func(row)                // is told of every charge
	arrived     map[string]chan struct{} // by order; closed when its first request has come
}

func newBank(l *ledger) *bank {
	return &bank{ledger: l, chargedFunc: func(row) {}, arrived: map[string]chan struct{}{}}
}

// handler serves the API.
func (b *bank) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /charges", b.list)
	mux.HandleFunc("POST /charges", func(w http.ResponseWriter, r *http.Request) { b.charge(w, r, "") })
	mux.HandleFunc("POST /v2/charges", func(w http.ResponseWriter, r *http.Request) {
		b.charge(w, r, r.Header.Get(chargeKeyHeader))
	})
	return mux
}

// charge takes the money.
func (b *bank) charge(w http.ResponseWriter, r *http.Request, key string) {
	var order row
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Order == "" || order.Amount <= 0 {
		http.Error(w, `send {"order":"mine","amount":500}`, http.StatusBadRequest)
		return
	}
	order.Customer = customerOf(r)
	b.running.Add(1)
	defer b.running.Done()
	b.arrive(order.Order)
	time.Sleep(atBank) // the bank goes on whether or not the client still waits
	charged, err := b.ledger.charge(order, key)
	if err != nil {
		http.Error(w, "the ledger cannot be written", http.StatusInternalServerError)
		return
	}
	b.tell(charged)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(charged)
}

func (b *bank) tell(r row) {
	b.mu.Lock()
	told := b.chargedFunc
	b.mu.Unlock()
	told(r)
}

// onCharge has f told of every charge from now on.
func (b *bank) onCharge(f func(row)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chargedFunc = f
}

// list shows every charge.
func (b *bank) list(w http.ResponseWriter, r *http.Request) {
	all, err := b.ledger.rows(r.Context())
	if err != nil {
		http.Error(w, "the ledger cannot be read", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, r := range all { // one a line, to be read in a terminal
		_ = json.NewEncoder(w).Encode(r)
	}
}

// customerOf takes the credential for the customer's name, as no real API would.
func customerOf(r *http.Request) string {
	if name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && name != "" {
		return name
	}
	return "somebody"
}

// settle returns once no charge is under way.
func (b *bank) settle() { b.running.Wait() }

func (b *bank) arrive(order string) {
	came := b.arrival(order)
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-came:
	default:
		close(came)
	}
}

// arrival returns what closes when the first request for the order comes in.
func (b *bank) arrival(order string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.arrived[order] == nil {
		b.arrived[order] = make(chan struct{})
	}
	return b.arrived[order]
}
