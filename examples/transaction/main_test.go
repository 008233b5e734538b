package main

import (
	"context"
	"database/sql"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

var shared servers.SharedPostgres

// api is the example with one kind of database.
type api struct {
	exampletest.API
	db      *sql.DB // the tables of the service
	records retrysafe.Inspector
}

// withEach runs test with each kind of database.
func withEach(t *testing.T, test func(t *testing.T, a *api)) {
	for _, kind := range []string{"sqlite", "pgx", "sqldb"} {
		t.Run(kind, func(t *testing.T) { test(t, start(t, kind)) })
	}
}

func start(t *testing.T, kind string) *api {
	t.Helper()
	path, url, driver := filepath.Join(t.TempDir(), "shop.db"), "", "sqlite"
	source := "file:" + path + "?_pragma=busy_timeout(10000)"
	if kind != "sqlite" {
		url = shared.Get(t).Database(t)
		driver, source = "pgx", url
		migrate(t, url)
	}
	d, err := open(t.Context(), kind, path, url)
	if err != nil {
		t.Fatal(err)
	}
	guard := retrysafe.New(d.records(), retrysafe.Options{})
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, err := range []error{guard.Shutdown(context.Background()), d.close(), db.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return &api{
		exampletest.Serve(t, handler(guard, d), exampletest.Payment("Authorization", "Bearer alice")), db,
		d.records().(retrysafe.Inspector),
	}
}

func migrate(t *testing.T, url string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (a *api) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := a.db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// number returns the result of a query over the tables of the service.
func (a *api) number(t *testing.T, query string) (n int64) {
	t.Helper()
	if err := a.db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Seen to fail with safe taken out of the handler.
func TestOnce(t *testing.T) {
	withEach(t, func(t *testing.T, a *api) {
		a.Once(func() int64 { return a.number(t, "SELECT count(*) FROM payments") })
		if n := a.number(t, "SELECT sum(amount) FROM ledger"); n != -4200 {
			t.Errorf("the ledger says %d, want -4200", n)
		}
	})
}

// Seen to fail in SQLite with the handler's own transaction instead of InTx, committed in any case, and with pgx with
// payments.New on the pool instead of the transaction.
func TestRollbackLeavesNeither(t *testing.T) {
	withEach(t, func(t *testing.T, a *api) {
		a.exec(t, "ALTER TABLE ledger RENAME TO broken")
		first := a.Post("k", a.Body)
		if first.Status != http.StatusServiceUnavailable || first.Header.Get("Idempotency-Status") != "released" {
			t.Errorf("got %d %s %v, want 503, released", first.Status, first.Body, first.Header)
		}
		if n := a.number(t, "SELECT count(*) FROM payments"); n != 0 {
			t.Errorf("%d payments after the rollback, want none", n)
		}
		stats, err := a.records.Stats(t.Context())
		stats.Bytes, stats.Released = 0, 0 // PostgreSQL keeps the row of a released key for a minute
		if err != nil || stats != (retrysafe.Stats{}) {
			t.Errorf("records after the rollback: %+v, %v; want none", stats, err)
		}
		a.exec(t, "ALTER TABLE broken RENAME TO ledger")
		if retry := a.Post("k", a.Body); retry.Status != http.StatusCreated || retry.Replayed() {
			t.Errorf("the retry got %d %s, want to pay", retry.Status, retry.Body)
		}
		if n := a.number(t, "SELECT count(*) FROM payments"); n != 1 {
			t.Errorf("%d payments, want 1", n)
		}
	})
}
