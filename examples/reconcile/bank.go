package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/examples/internal/faults"
)

// bank is another company's API, in this process so that the example runs by itself. It has no idempotency keys. It
// refuses a reference that it has seen, which also stops a charge that was still on its way when the shop queried it.
type bank struct {
	server *httptest.Server

	mu      sync.Mutex
	charges map[string]charge // by reference
}

// openBank starts a bank that once closes the connection without an answer.
func openBank() *bank {
	b := &bank{charges: make(map[string]charge)}
	mux := http.NewServeMux()
	mux.Handle("POST /charges", faults.HangUpOnce(http.HandlerFunc(b.charge)))
	mux.HandleFunc("GET /charges/{reference}", b.find)
	b.server = httptest.NewServer(mux)
	return b
}

func (b *bank) client() *bankClient {
	return &bankClient{http: &http.Client{Timeout: 10 * time.Second}, url: b.server.URL}
}

func (b *bank) charge(w http.ResponseWriter, r *http.Request) {
	var c charge
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, seen := b.charges[c.Reference]; seen {
		http.Error(w, "this reference has been used", http.StatusConflict)
		return
	}
	c.ID = rand.Text()
	b.charges[c.Reference] = c
	tell(w, http.StatusCreated, c)
}

func (b *bank) find(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, found := b.charges[r.PathValue("reference")]
	if !found {
		http.NotFound(w, r)
		return
	}
	tell(w, http.StatusOK, c)
}

// made returns the number of charges.
func (b *bank) made() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(len(b.charges))
}

func tell(w http.ResponseWriter, status int, c charge) {
	body, err := json.Marshal(c)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}
