package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

var shared servers.SharedPostgres

// Seen to fail with safe taken out of the handler.
func TestOnce(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), shared.Get(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.New(t.Context(), pool, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	guard := retrysafe.New(store, retrysafe.Options{})
	defer guard.Shutdown(context.Background())
	q := exampletest.Request{
		Path:   "/payments",
		Header: http.Header{"Authorization": {"Bearer alice"}},
		Body:   `{"amount":4200}`,
		Other:  `{"amount":1}`,
	}
	exampletest.Once(t, handler(guard, store, db), q, func() (n int64) {
		if err := db.QueryRow("SELECT count(*) FROM payments").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	})
}
