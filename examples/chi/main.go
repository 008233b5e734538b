// Command chi guards routes of a chi router. Middleware of net/http works in chi without an adapter.
//
//	go run ./examples/chi
//	curl -i 127.0.0.1:8080/payments -H 'X-Tenant: acme' -H 'Idempotency-Key: "order-17"' -d '{"amount":4200}'
//
// A gateway sets X-Tenant once it has authenticated the caller. It must remove that header from clients' requests, and
// clients must not be able to reach this server directly. Otherwise use another scope.
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

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

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
	store, err := sqlitestore.Open("payments.db", sqlitestore.Options{})
	if err != nil {
		return err
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	server := &http.Server{
		Addr:              "127.0.0.1:8080",
		Handler:           handler(guard, new(bank)),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return errors.Join(server.ListenAndServe(), guard.Shutdown(context.Background()), store.Close())
}

func handler(guard *retrysafe.Guard, b *bank) http.Handler {
	scope := httpsafe.ScopeHeader("X-Tenant")
	router := chi.NewRouter()
	router.Use(middleware.Recoverer)

	// One route, whose clients must send a key.
	safe := httpsafe.Middleware(guard, scope, httpsafe.Options{Required: true})
	router.With(safe).Post("/payments", b.pay)

	// A group of routes, guarded if a client sends a key. Refunds can be replayed for longer.
	patient := guard.With(retrysafe.Policy{Retention: retrysafe.Retention{Replay: 72 * time.Hour}})
	router.Group(func(r chi.Router) {
		r.Use(httpsafe.Middleware(patient, scope, httpsafe.Options{}))
		r.Post("/payments/{id}/refunds", b.pay)
		r.Patch("/payments/{id}", b.pay)
	})
	return router
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
	fmt.Fprintf(w, "{\"id\":%q,\"amount\":%d}\n", rand.Text(), order.Amount)
}
