// Command sqldb is the example postgres for users of database/sql and libraries on top of it. The payment and the
// completion of its key, with the answer, are committed together or not at all.
//
//	export DATABASE_URL=postgres://localhost/shop
//	go run ./cmd/retrysafe migrate up --store "$DATABASE_URL"
//	go run ./examples/sqldb
//	curl -i 127.0.0.1:8080/payments -H 'Authorization: Bearer alice' \
//	  -H 'Idempotency-Key: "order-17"' -d '{"amount":4200}'
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// schema is the service's own table.
const schema = `CREATE TABLE IF NOT EXISTS payments (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	amount bigint NOT NULL
)`

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
	db := stdlib.OpenDBFromPool(pool) // or any other handle on the same database
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return errors.Join(err, db.Close())
	}
	store, err := pgstore.New(ctx, pool, pgstore.Options{})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: handler(guard, store, db), ReadHeaderTimeout: 10 * time.Second}
	return errors.Join(server.ListenAndServe(), guard.Shutdown(ctx), store.Close(), db.Close())
}

// handler guards payments. The example postgres explains the policies.
func handler(guard *retrysafe.Guard, store *pgstore.Store, db *sql.DB) http.Handler {
	guarded := guard.With(retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()})
	safe := httpsafe.Middleware(guarded, httpsafe.ScopeCredential(), httpsafe.Options{
		Required: true,
	})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", safe(pay(store, db)))
	return mux
}

func pay(store *pgstore.Store, db *sql.DB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Amount int64 }
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
			http.Error(w, "the amount must be a positive number of cents", http.StatusBadRequest)
			return
		}
		err := store.InSQLTx(r.Context(), db, func(ctx context.Context, tx *sql.Tx) error {
			var id int64
			err := tx.QueryRowContext(ctx, "INSERT INTO payments (amount) VALUES ($1) RETURNING id", order.Amount).Scan(&id)
			if err != nil {
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
