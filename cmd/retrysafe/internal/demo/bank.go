package demo

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How long the bank takes for a charge.
const (
	atBank     = 300 * time.Millisecond  // in the scenes, slow enough to be seen
	byHandBank = 20 * time.Millisecond   // afterwards, because a probe makes thousands of charges
	slowBank   = 1200 * time.Millisecond // at POST /charges/slow, always
)

// chargeKeyHeader tells POST /v2/charges which charge a request is about.
const chargeKeyHeader = "Charge-Key"

// bank is the payments API that needs protection: every request to POST /charges takes money, as every one to the
// slow POST /charges/slow does, and every event of a shop to POST /events. POST /v2/charges is safer, as many real APIs are: it makes one charge per Charge-Key.
type bank struct {
	ledger  *ledger
	running sync.WaitGroup
	held    sync.RWMutex // while it is locked, no charge is made

	mu          sync.Mutex
	takes       time.Duration            // for a charge
	chargedFunc func(row)                // receives every charge
	arrived     map[string]chan struct{} // by order; closed when its first request has come
}

func newBank(l *ledger) *bank {
	return &bank{ledger: l, takes: atBank, chargedFunc: func(row) {}, arrived: map[string]chan struct{}{}}
}

// handler serves the API.
func (b *bank) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /charges", b.list)
	mux.HandleFunc("GET /charges/{id}", b.show)
	mux.HandleFunc("POST /charges", func(w http.ResponseWriter, r *http.Request) { b.charge(w, r, "", b.pace()) })
	mux.HandleFunc("POST /charges/slow", func(w http.ResponseWriter, r *http.Request) { b.charge(w, r, "", slowBank) })
	mux.HandleFunc("POST /events", func(w http.ResponseWriter, r *http.Request) { b.charge(w, r, "", b.pace()) })
	mux.HandleFunc("POST /v2/charges", func(w http.ResponseWriter, r *http.Request) {
		b.charge(w, r, r.Header.Get(chargeKeyHeader), b.pace())
	})
	return mux
}

// pace is how long a charge takes at the moment.
func (b *bank) pace() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.takes
}

// charge adds a charge to the ledger. It takes as long as takes says.
func (b *bank) charge(w http.ResponseWriter, r *http.Request, key string, takes time.Duration) {
	var order row
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Order == "" || order.Amount <= 0 {
		http.Error(w, `send {"order":"mine","amount":500}`, http.StatusBadRequest)
		return
	}
	order.Customer = customerOf(r)
	b.running.Add(1)
	defer b.running.Done()
	b.arrive(order.Order)
	time.Sleep(takes) // the bank continues whether or not the client still waits
	b.held.RLock()
	charged, err := b.ledger.charge(order, key)
	b.held.RUnlock()
	if err != nil {
		http.Error(w, "the ledger cannot be written", http.StatusInternalServerError)
		return
	}
	b.report(charged)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", fmt.Sprintf("/charges/%d", charged.ID))
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(charged)
}

func (b *bank) report(r row) {
	b.mu.Lock()
	charged := b.chargedFunc
	b.mu.Unlock()
	charged(r)
}

// byHand makes the bank quick, and reports every charge to f from now on.
func (b *bank) byHand(f func(row)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takes, b.chargedFunc = byHandBank, f
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

// show shows one charge.
func (b *bank) show(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	found, err := b.ledger.one(r.Context(), id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, "the ledger cannot be read", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(found)
	}
}

// customerOf returns the credential as the name of the customer, which no real API would do.
func customerOf(r *http.Request) string {
	if name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && name != "" {
		return name
	}
	return "anonymous"
}

// settle waits until no charge is running.
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
