package outbox

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
	"github.com/retrysafe/retrysafe/stores/pgstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Many processes may migrate at once, and repeatedly. Seen to fail with the lock taken out of lock.sql, and on MariaDB
// with unlock.sql not run.
func TestMigrate(t *testing.T) {
	everywhere(t, func(k *kit) {
		box, err := outbox.New(k.db, k.dialect, outbox.Options{Table: "select"}) // a name that needs quotes
		if err != nil {
			k.Fatal(err)
		}
		applied := make([]int, 8)
		err = together(len(applied), len(applied), func(i int) error {
			all, err := box.Migrate(context.Background())
			applied[i] = len(all)
			return err
		})
		if err != nil {
			k.Fatal(err)
		}
		total := 0
		for _, n := range applied {
			total += n
		}
		if want := len(box.Migrations()); total != want {
			k.Errorf("%d migrations applied, want %d", total, want)
		}
		if err := (&kit{T: k.T, db: k.db, box: box}).trySave(k.Context(), outbox.Message{}); err != nil {
			k.Error(err)
		}
		if s := k.stats(); s.Pending != 0 {
			k.Errorf("another outbox in the database has %+v", s)
		}
		k.exec(`INSERT INTO select_migrations (version, name) VALUES (99, 'of tomorrow')`)
		if _, err := box.Migrate(k.Context()); !errors.Is(err, outbox.ErrNewerSchema) {
			k.Errorf("got %v, want ErrNewerSchema", err)
		}
	})
}

func TestSchema(t *testing.T) {
	onServers(t, func(k *kit) {
		schema := "shop"
		if k.dialect == outbox.MySQL { // a database, which others share
			_, name, _ := strings.Cut(sharedMariaDB.Get(k).Database(k), ")/")
			schema = name
		}
		k.box = k.newBox(outbox.Options{Schema: schema, Table: "letters"})
		k.save(outbox.Message{Key: "k"})
		told, _ := k.relay(&recorder{}, outbox.RelayOptions{})
		told.await(k, outbox.MessageSent, 1)
		if n := k.count("SELECT count(*) FROM " + schema + ".letters WHERE state = 2"); n != 1 {
			k.Errorf("%d messages in letters, want 1", n)
		}
	})
}

// A handler's order, its message and the answer to its client commit together: a retry gets the answer, and there is
// one message, under the key derived from the request's. Seen to fail with Save given the database instead of the
// transaction.
func TestSaveInTheTransactionThatCompletes(t *testing.T) {
	everywhere(t, func(k *kit) {
		fail := true
		work := func(ctx context.Context, w http.ResponseWriter, save func(m outbox.Message) error) error {
			if err := save(outbox.Message{Topic: "orders", Name: "paid", Body: []byte("an order")}); err != nil {
				return err
			}
			w.WriteHeader(http.StatusCreated)
			if fail {
				return errors.New("out of paper")
			}
			return nil
		}
		store, inTx := k.openStore(work)
		guard := retrysafe.New(store, retrysafe.Options{})
		defer guard.Shutdown(context.Background())
		h := httpsafe.Middleware(guard, httpsafe.ScopeNone(),
			httpsafe.Options{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := inTx(w, r); err != nil {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "try again", http.StatusServiceUnavailable)
			}
		}))
		order := func() int {
			r := httptest.NewRequest("POST", "/orders", strings.NewReader("a book"))
			r.Header.Set("Idempotency-Key", "order-1")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		for _, c := range []struct {
			fail            bool
			status, pending int
		}{{true, 503, 0}, {false, 201, 1}, {false, 201, 1}} {
			fail = c.fail
			if status, n := order(), k.stats().Pending; status != c.status || n != c.pending {
				k.Errorf("got %d with %d messages, want %d with %d", status, n, c.status, c.pending)
			}
		}
	})
}

// openStore opens a store on the outbox's database; inTx runs work in the transaction that completes a request.
func (k *kit) openStore(work func(context.Context, http.ResponseWriter, func(outbox.Message) error) error) (
	store retrysafe.Store, inTx func(http.ResponseWriter, *http.Request) error,
) {
	k.Helper()
	if k.dialect == outbox.SQLite {
		s, err := sqlitestore.New(k.db, sqlitestore.Options{})
		if err != nil {
			k.Fatal(err)
		}
		k.Cleanup(func() { s.Close() })
		return s, func(w http.ResponseWriter, r *http.Request) error {
			return s.InTx(r.Context(), func(ctx context.Context, tx *sql.Tx) error {
				return work(ctx, w, func(m outbox.Message) error { return outbox.Save(ctx, k.box, tx, m) })
			})
		}
	}
	if k.dialect == outbox.MySQL {
		if _, err := mysqlstore.Migrate(k.Context(), k.db, mysqlstore.MigrateOptions{}); err != nil {
			k.Fatal(err)
		}
		s, err := mysqlstore.New(k.Context(), k.db, mysqlstore.Options{})
		if err != nil {
			k.Fatal(err)
		}
		k.Cleanup(func() { s.Close() })
		return s, func(w http.ResponseWriter, r *http.Request) error {
			return s.InTx(r.Context(), k.db, func(ctx context.Context, tx *sql.Tx) error {
				return work(ctx, w, func(m outbox.Message) error { return outbox.Save(ctx, k.box, tx, m) })
			})
		}
	}
	pool := openPool(k, k.url)
	if _, err := pgstore.Migrate(k.Context(), pool, pgstore.MigrateOptions{}); err != nil {
		k.Fatal(err)
	}
	s, err := pgstore.New(k.Context(), pool, pgstore.Options{})
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { s.Close() })
	return s, func(w http.ResponseWriter, r *http.Request) error {
		return s.InTx(r.Context(), func(ctx context.Context, tx pgx.Tx) error {
			return work(ctx, w, func(m outbox.Message) error { return outbox.SavePgx(ctx, k.box, tx, m) })
		})
	}
}
