// Command observer counts what the guard does, and serves the counters as JSON.
//
//	go run ./examples/observer
//	curl -i 127.0.0.1:8080/payments -H 'Authorization: Bearer alice' \
//	  -H 'Idempotency-Key: "order-17"' -d '{"amount":4200}'
//	curl 127.0.0.1:8081/counters
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync/atomic"
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

// run serves until it fails; the example nethttp shows a clean shutdown. The counters have their own address, which
// is not public.
func run() error {
	store, err := sqlitestore.Open("payments.db", sqlitestore.Options{})
	if err != nil {
		return err
	}
	seen := newCounters()
	guard := retrysafe.New(store, retrysafe.Options{Observer: seen})
	public := newServer("127.0.0.1:8080", handler(guard, new(bank)))
	private := newServer("127.0.0.1:8081", seen)
	failed := make(chan error, 2)
	go func() { failed <- public.ListenAndServe() }()
	go func() { failed <- private.ListenAndServe() }()
	return errors.Join(<-failed, public.Close(), private.Close(), guard.Shutdown(context.Background()), store.Close())
}

func newServer(address string, h http.Handler) *http.Server {
	return &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
}

func handler(guard *retrysafe.Guard, b *bank) http.Handler {
	safe := httpsafe.Middleware(guard, httpsafe.ScopeCredential(), httpsafe.Options{Required: true})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", safe(http.HandlerFunc(b.pay)))
	return mux
}

// bank counts the charges.
type bank struct{ charges atomic.Int64 }

// pay runs once for each key, however often the client retries.
func (b *bank) pay(w http.ResponseWriter, r *http.Request) {
	var order struct{ Amount int64 }
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
		http.Error(w, "the amount must be a positive number of cents", http.StatusBadRequest)
		return
	}
	b.charges.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"charge\":%q,\"amount\":%d}\n", rand.Text(), order.Amount)
}
