package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/examples/postgres/payments"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

var shared servers.SharedPostgres

func request() exampletest.Request {
	return exampletest.Request{
		Path:   "/payments",
		Header: http.Header{"Authorization": {"Bearer alice"}},
		Body:   `{"amount":4200}`,
		Other:  `{"amount":1}`,
	}
}

// open returns the API and its database.
func open(t *testing.T) (http.Handler, *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), shared.Get(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), payments.Schema); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.New(t.Context(), pool, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	t.Cleanup(func() {
		if err := guard.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		pool.Close()
	})
	return handler(guard, store), pool
}

func count(t *testing.T, pool *pgxpool.Pool, query string) (n int64) {
	t.Helper()
	if err := pool.QueryRow(context.Background(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Seen to fail with safe taken out of the handler.
func TestOnce(t *testing.T) {
	h, pool := open(t)
	exampletest.Once(t, h, request(), func() int64 { return count(t, pool, "SELECT count(*) FROM payments") })
	if n := count(t, pool, "SELECT sum(amount)::bigint FROM ledger"); n != -4200 {
		t.Errorf("the ledger says %d, want -4200", n)
	}
}

// Seen to fail with the handler's own transaction instead of InTx, committed in any case.
func TestRollbackLeavesNeither(t *testing.T) {
	h, pool := open(t)
	server := httptest.NewServer(h)
	defer server.Close()
	q := request()
	if _, err := pool.Exec(t.Context(), "ALTER TABLE ledger RENAME TO broken"); err != nil {
		t.Fatal(err)
	}
	a := exampletest.Post(t, server.URL, "k", q.Body, q)
	if a.Status != http.StatusServiceUnavailable || a.Header.Get("Idempotency-Status") != "released" {
		t.Errorf("got %d %s %v, want 503, released", a.Status, a.Body, a.Header)
	}
	if n := count(t, pool, "SELECT count(*) FROM payments"); n != 0 {
		t.Errorf("%d payments after the rollback, want none", n)
	}
	if _, err := pool.Exec(t.Context(), "ALTER TABLE broken RENAME TO ledger"); err != nil {
		t.Fatal(err)
	}
	if a := exampletest.Post(t, server.URL, "k", q.Body, q); a.Status != http.StatusCreated || a.Replayed() {
		t.Errorf("the retry got %d %s, want to pay", a.Status, a.Body)
	}
}
