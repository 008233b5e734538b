package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// business is a store whose file has a table of the user's.
func business(t *testing.T) *Store {
	t.Helper()
	s := openTest(t)
	if _, err := s.db.Exec("CREATE TABLE charges (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	return s
}

func insertCharge(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO charges VALUES ('one')")
	return err
}

func charges(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.db.QueryRow("SELECT count(*) FROM charges").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// guarded runs work under the key "k" and returns what it returned.
func guarded(t *testing.T, s *Store, work func(context.Context, *retrysafe.Attempt) error) error {
	t.Helper()
	return testkit.Guarded(t, s, retrysafe.Key{ID: "k"}, work)
}

// A commit that answers with an error has happened if the file says so; if the file cannot be read, it is unknown. Seen
// to fail with the question taken out of commit, and with an error of the reader taken for "it has not".
func TestInTxUnknownCommit(t *testing.T) {
	s := business(t)
	c, err := s.Claim(t.Context(), params("a"))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil { // so that Commit fails
		t.Fatal(err)
	}
	of := &sharedTx{store: s, tx: tx}
	done := func() (bool, error) { return s.completed(t.Context(), change{c.Lease, c.Lease.Key.Digest()}) }
	if err := of.commit(done); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("without the completion: got %v, want the error", err)
	}
	if err := s.Complete(t.Context(), c.Lease, retrysafe.Result{}, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	if err := of.commit(done); err != nil {
		t.Errorf("with the completion: got %v, want nil", err)
	}
	err = guarded(t, s, func(context.Context, *retrysafe.Attempt) error {
		return of.commit(func() (bool, error) { return false, errors.New("the file cannot be read") })
	})
	if !errors.Is(err, retrysafe.ErrAbandoned) {
		t.Errorf("without an answer of the file: got %v, want that the outcome is unknown", err)
	}
}

// Seen to fail with ErrTxDone treated as success.
func TestInTxEndedByTheFunction(t *testing.T) {
	s := business(t)
	_ = guarded(t, s, func(ctx context.Context, _ *retrysafe.Attempt) error {
		err := s.InTx(ctx, func(_ context.Context, tx *sql.Tx) error { return tx.Commit() })
		if !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("got %v, want ErrTxDone", err)
		}
		return err
	})
}

// Using the store inside InTx fails at once. Seen to hang with the checks of holderKey and heldBy taken out.
func TestInTxIsNotNested(t *testing.T) {
	s := business(t)
	err := guarded(t, s, func(ctx context.Context, a *retrysafe.Attempt) error {
		return s.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			if _, err := s.Claim(ctx, params("other")); !errors.Is(err, ErrInsideTransaction) {
				t.Errorf("Claim: got %v, want ErrInsideTransaction", err)
			}
			err := s.Checkpoint(t.Context(), a.Control().Lease(), retrysafe.StepResult{Name: "step"})
			if !errors.Is(err, ErrInsideTransaction) {
				t.Errorf("Checkpoint: got %v, want ErrInsideTransaction", err)
			}
			return insertCharge(ctx, tx)
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// While a transaction has the connection, what is done or in flight is answered, and a claim waits no longer than its
// context. Seen to fail with the readers taken out of Claim, and with operations that stay in the queue when their
// context ends.
func TestInTxHoldsUpNoReader(t *testing.T) {
	s := business(t)
	if err := completeOne(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	err := guarded(t, s, func(ctx context.Context, a *retrysafe.Attempt) error {
		return s.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			if c, err := s.Claim(t.Context(), params("1")); err != nil || c.Verdict != retrysafe.Done {
				t.Errorf("of a done key: got %v, %v", c.Verdict, err)
			}
			if c, err := s.Claim(t.Context(), retrysafe.ClaimParams{Key: a.Key()}); err != nil ||
				c.Verdict != retrysafe.InFlight {
				t.Errorf("of the key in flight: got %v, %v", c.Verdict, err)
			}
			short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if _, err := s.Claim(short, params("new")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("of a new key: got %v, want DeadlineExceeded", err)
			}
			return insertCharge(ctx, tx)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := s.Inspect(t.Context(), params("new").Key.Digest()); err != nil || len(found) != 0 {
		t.Errorf("the claim that did not wait was made nevertheless: %v, %v", found, err)
	}
}

// What SQLite has rolled back by itself, as it does on a full disk too, is not completed, also if the function
// ignores the error. Seen to fail with Intact returning nil: the attempt was completed, and its charge was gone.
func TestInTxThatSQLiteHasRolledBack(t *testing.T) {
	s := business(t)
	if _, err := s.db.Exec("CREATE UNIQUE INDEX once ON charges (id); INSERT INTO charges VALUES ('taken')"); err != nil {
		t.Fatal(err)
	}
	err := guarded(t, s, func(ctx context.Context, _ *retrysafe.Attempt) error {
		err := s.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			if err := insertCharge(ctx, tx); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO charges VALUES ('taken')"); err == nil {
				t.Error("there is no conflict")
			}
			return nil
		})
		if err == nil {
			t.Errorf("InTx has completed, with %d charges; want an error", charges(t, s)-1)
		}
		return retrysafe.Retryable(err)
	})
	if err == nil || !strings.Contains(err.Error(), "rolled back inside") {
		t.Errorf("got %v, want what has happened", err)
	}
	if err := guarded(t, s, func(ctx context.Context, _ *retrysafe.Attempt) error {
		return s.InTx(ctx, insertCharge)
	}); err != nil {
		t.Fatal(err)
	}
	if n := charges(t, s); n != 2 {
		t.Errorf("got %d charges, want one more", n)
	}
}

// plainConn is a connection of a driver that cannot say when it commits.
type plainConn struct {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

// plainDriver is a driver with such connections.
type plainDriver struct{ path string }

func (d plainDriver) Driver() driver.Driver { return &sqlite.Driver{} }

func (d plainDriver) Connect(context.Context) (driver.Conn, error) {
	c, err := d.Driver().Open("file:" + d.path + "?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	return plainConn{c, c.(driver.ConnBeginTx), c.(driver.ExecerContext), c.(driver.QueryerContext)}, nil
}

// With such a driver InTx works, and what its function has ended itself counts as committed. Seen to fail with none
// counted from the start.
func TestInTxWithAnyDriver(t *testing.T) {
	db := sql.OpenDB(plainDriver{filepath.Join(t.TempDir(), "store.db")})
	defer db.Close()
	s, err := New(db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := db.Exec("CREATE TABLE charges (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	again := func(f func(ctx context.Context, tx *sql.Tx) error) error {
		return guarded(t, s, func(ctx context.Context, _ *retrysafe.Attempt) error {
			return retrysafe.Retryable(s.InTx(ctx, f))
		})
	}
	boom := errors.New("boom")
	if err := again(func(context.Context, *sql.Tx) error { return boom }); !errors.Is(err, boom) ||
		errors.Is(err, retrysafe.ErrAbandoned) {
		t.Errorf("after an error: got %v, want that alone", err)
	}
	err = again(func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "COMMIT")
		return errors.Join(err, boom)
	})
	if !errors.Is(err, retrysafe.ErrAbandoned) {
		t.Errorf("after COMMIT: got %v, want ErrAbandoned", err)
	}
}
