// Command transaction keeps its own rows and the guard's records in one SQLite file. The payment and the completion
// of its key, with the answer, are committed together or not at all. A crash therefore leaves nothing half done, and
// an interrupted attempt can run again.
//
//	go run ./examples/transaction
//	curl -i 127.0.0.1:8080/payments -H 'Authorization: Bearer alice' \
//	  -H 'Idempotency-Key: "order-17"' -d '{"amount":4200}'
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"time"

	_ "modernc.org/sqlite" // the driver

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
	db, err := openDB("shop.db")
	if err != nil {
		return err
	}
	store, err := sqlitestore.New(db, sqlitestore.Options{})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: handler(guard, store), ReadHeaderTimeout: 10 * time.Second}
	return errors.Join(server.ListenAndServe(), guard.Shutdown(context.Background()), store.Close(), db.Close())
}

// handler guards payments. All that pay does is in one transaction, so an attempt that has failed, or was interrupted by
// a crash, has done nothing (RerunTx).
func handler(guard *retrysafe.Guard, store *sqlitestore.Store) http.Handler {
	payments := guard.With(retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()})
	safe := httpsafe.Middleware(payments, httpsafe.ScopeCredential(), httpsafe.Options{
		Required: true, // without a key there would be no attempt for InTx
	})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", safe(pay(store)))
	return mux
}

func pay(store *sqlitestore.Store) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Amount int64 }
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
			http.Error(w, "the amount must be a positive number of cents", http.StatusBadRequest)
			return
		}
		err := store.InTx(r.Context(), func(ctx context.Context, tx *sql.Tx) error {
			id, err := savePayment(ctx, tx, order.Amount)
			if err != nil {
				return err
			}
			answer(w, id, order.Amount)
			return nil
		})
		if err != nil {
			log.Printf("payment rolled back: %v", err)
			w.Header().Set("Retry-After", "1") // nothing happened: the key is free again
			http.Error(w, "nothing was paid; try again", http.StatusServiceUnavailable)
		}
	})
}
