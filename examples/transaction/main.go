// Command transaction keeps its own rows and the guard's records in one database. The payment and the completion of
// its key, with the answer, are committed together or not at all. A crash therefore leaves nothing half done, and an
// interrupted attempt can run again.
//
// In an SQLite file (sqlite.go):
//
//	go run ./examples/transaction sqlite
//
// In PostgreSQL, with pgx and statements in the style of sqlc (pgx.go), or for users of database/sql and libraries on
// top of it (sqldb.go):
//
//	export DATABASE_URL=postgres://localhost/shop
//	go run ./cmd/retrysafe migrate up --store "$DATABASE_URL"
//	go run ./examples/transaction pgx
//	go run ./examples/transaction sqldb
//
// The request is the same for all of them:
//
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

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

// run serves until it fails; the example nethttp shows a clean shutdown.
func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: transaction sqlite | transaction pgx | transaction sqldb")
	}
	db, err := open(ctx, args[0], "shop.db", os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	guard := retrysafe.New(db.records(), retrysafe.Options{})
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: handler(guard, db), ReadHeaderTimeout: 10 * time.Second}
	return errors.Join(server.ListenAndServe(), guard.Shutdown(ctx), db.close())
}

// database has the rows of the service and the records of the guard.
type database interface {
	// pay saves a payment and its ledger entry, calls answer with the payment's ID, and completes the key, in one
	// transaction. After an error nothing of it has happened.
	pay(ctx context.Context, amount int64, answer func(id int64)) error
	records() retrysafe.Store
	close() error
}

func open(ctx context.Context, kind, path, url string) (database, error) {
	switch kind {
	case "sqlite":
		return openSQLite(path)
	case "pgx":
		return openPgx(ctx, url)
	case "sqldb":
		return openSQLDB(ctx, url)
	}
	return nil, fmt.Errorf("unsupported database %q; supported: sqlite, pgx, sqldb", kind)
}

// handler guards payments. All that pay does is in one transaction, so an attempt that has failed, or was interrupted
// by a crash, has done nothing (RerunTx).
func handler(guard *retrysafe.Guard, db database) http.Handler {
	payments := guard.With(retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()})
	safe := httpsafe.Middleware(payments, httpsafe.ScopeCredential(), httpsafe.Options{
		Required: true, // without a key there would be no attempt for InTx
	})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", safe(pay(db)))
	return mux
}

func pay(db database) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Amount int64 }
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
			http.Error(w, "the amount must be a positive number of cents", http.StatusBadRequest)
			return
		}
		err := db.pay(r.Context(), order.Amount, func(id int64) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", fmt.Sprintf("/payments/%d", id))
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "{\"payment\":%d,\"amount\":%d}\n", id, order.Amount)
		})
		if err != nil {
			log.Printf("payment rolled back: %v", err)
			w.Header().Set("Retry-After", "1") // nothing happened: the key is free again
			http.Error(w, "nothing was paid; try again", http.StatusServiceUnavailable)
		}
	})
}
