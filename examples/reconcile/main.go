// Command reconcile charges cards at a bank that has no idempotency keys but can be queried by reference. If an
// attempt was interrupted, the retry queries the bank, and then answers with the found charge or charges. Here the
// bank closes the connection of its first request without an answer, after it has charged.
//
//	go run ./examples/reconcile
//	curl -i 127.0.0.1:8080/payments -H 'Authorization: Bearer alice' \
//	  -H 'Idempotency-Key: "order-17"' -d '{"amount":4200}'
//
// The first answer is 502; send it again.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run serves until it fails; the example nethttp shows a clean shutdown.
func run() error {
	store, err := sqlitestore.Open("shop.db", sqlitestore.Options{})
	if err != nil {
		return err
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	bank := openBank()
	defer bank.server.Close()
	server := &http.Server{
		Addr: "127.0.0.1:8080", Handler: handler(guard, bank.client()),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return errors.Join(server.ListenAndServe(), guard.Shutdown(context.Background()), store.Close())
}

// handler guards payments. After a 502 or a panic the outcome is unknown: the key is abandoned, and a retry
// reconciles.
func handler(guard *retrysafe.Guard, bank *bankClient) http.Handler {
	s := &shop{bank}
	payments := guard.With(retrysafe.Policy{OnAbandoned: retrysafe.Reconcile(s.queryBank)})
	safe := httpsafe.Middleware(payments, httpsafe.ScopeCredential(), httpsafe.Options{Required: true})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", safe(http.HandlerFunc(s.pay)))
	return mux
}

type shop struct{ bank *bankClient }

// pay charges under a reference that is the same in every attempt, and that the bank accepts only once.
func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	var order struct{ Amount int64 }
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
		http.Error(w, "the amount must be a positive number of cents", http.StatusBadRequest)
		return
	}
	reference, err := retrysafe.ChildKey(r.Context(), "charge")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	c, err := s.bank.charge(r.Context(), charge{Reference: reference, Amount: order.Amount})
	if err != nil {
		log.Printf("payment interrupted: %v", err)
		http.Error(w, "it is unknown whether the bank has charged", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	w.Write(c.receipt())
}

// queryBank finds out what happened to an abandoned payment. It returns the same answer as pay.
func (s *shop) queryBank(ctx context.Context, a *retrysafe.Attempt, _ retrysafe.Record) (*retrysafe.Result, error) {
	c, found, err := s.bank.find(ctx, a.ChildKey("charge"))
	if err != nil || !found { // still unknown; or never charged, and pay runs
		return nil, err
	}
	result := httpsafe.NewResult(http.StatusCreated, http.Header{"Content-Type": {"application/json"}}, c.receipt())
	return &result, nil
}
