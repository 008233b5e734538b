package main

import (
	"crypto/rand"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/faults"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// backends are the three services that the shop calls, in this process so that the example runs by itself.
type backends struct{ stock, bank, carrier *service }

// openBackends starts the services. The carrier once closes the connection without an answer.
func openBackends() *backends {
	return &backends{
		stock: newService(noLimit, nil), bank: newService(100_000, nil),
		carrier: newService(noLimit, faults.HangUpOnce),
	}
}

func (t *backends) shop() *shop {
	return &shop{
		client:  &http.Client{Timeout: 10 * time.Second},
		stock:   t.stock.server.URL,
		bank:    t.bank.server.URL,
		carrier: t.carrier.server.URL,
	}
}

func (t *backends) close() {
	t.stock.server.Close()
	t.bank.server.Close()
	t.carrier.server.Close()
}

// service makes something for each new key. It uses the same middleware as the shop; any other service with
// idempotency keys works as well.
type service struct {
	server      *httptest.Server
	asked, made atomic.Int64
	limit       int64 // in cents; the service declines larger amounts
}

const noLimit = math.MaxInt64

func newService(limit int64, fault func(http.Handler) http.Handler) *service {
	s := &service{limit: limit}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	// The shop is its only caller.
	safe := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{Required: true})
	h := safe(http.HandlerFunc(s.make))
	if fault != nil {
		h = fault(h)
	}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		h.ServeHTTP(w, r)
	}))
	return s
}

func (s *service) make(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if o.Amount > s.limit {
		http.Error(w, "declined", http.StatusPaymentRequired)
		return
	}
	s.made.Add(1)
	answer(w, map[string]string{"id": rand.Text()})
}
