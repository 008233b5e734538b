// Command postgres keeps the service's rows and the guard's records in one PostgreSQL database. The payment and the
// completion of its key, with the answer, are committed together or not at all. The statements are in the style of
// sqlc.
//
//	export DATABASE_URL=postgres://localhost/shop
//	go run ./cmd/retrysafe migrate up --store "$DATABASE_URL"
//	go run ./examples/postgres
//	curl -i 127.0.0.1:8080/payments -H 'Authorization: Bearer alice' \
//	  -H 'Idempotency-Key: "order-17"' -d '{"amount":4200}'
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/postgres/payments"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

func main() {
	if err := run(context.Background(), os.Getenv("DATABASE_URL")); err != nil {
		log.Fatal(err)
	}
}

// run serves until it fails; the example nethttp shows a clean shutdown.
func run(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, payments.Schema); err != nil {
		return err
	}
	store, err := pgstore.New(ctx, pool, pgstore.Options{})
	if err != nil {
		return err
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: handler(guard, store), ReadHeaderTimeout: 10 * time.Second}
	return errors.Join(server.ListenAndServe(), guard.Shutdown(ctx), store.Close())
}

// handler guards payments. All that pay does is in one transaction, so an attempt that has failed, or was interrupted by
// a crash, has done nothing (RerunTx).
func handler(guard *retrysafe.Guard, store *pgstore.Store) http.Handler {
	guarded := guard.With(retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()})
	safe := httpsafe.Middleware(guarded, httpsafe.ScopeCredential(), httpsafe.Options{
		Required: true, // without a key there would be no attempt for InTx
	})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", safe(pay(store)))
	return mux
}

func pay(store *pgstore.Store) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Amount int64 }
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
			http.Error(w, "the amount must be a positive number of cents", http.StatusBadRequest)
			return
		}
		err := store.InTx(r.Context(), func(ctx context.Context, tx pgx.Tx) error {
			q := payments.New(tx)
			id, err := q.InsertPayment(ctx, order.Amount)
			if err != nil {
				return err
			}
			if err := q.InsertEntry(ctx, id, -order.Amount); err != nil {
				return err
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "{\"payment\":%d,\"amount\":%d}\n", id, order.Amount)
			return nil
		})
		if err != nil {
			log.Printf("payment rolled back: %v", err)
			w.Header().Set("Retry-After", "1") // nothing happened: the key is free again
			http.Error(w, "nothing was paid; try again", http.StatusServiceUnavailable)
		}
	})
}
