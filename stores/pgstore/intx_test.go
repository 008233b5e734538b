package pgstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// business is a store whose database has a table of the user's, and a way to write to it together with a completion.
type business struct {
	*Store
	db *sql.DB // nil: pgx
}

func newBusiness(t *testing.T, s *Store, withSQL bool) business {
	t.Helper()
	execute(t, s, "CREATE TABLE IF NOT EXISTS charges (id text)")
	b := business{Store: s}
	if withSQL {
		db, err := sql.Open("pgx", s.pool.Config().ConnString())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		b.db = db
	}
	return b
}

// eachWay runs a test with pgx and with database/sql.
func eachWay(t *testing.T, test func(t *testing.T, b business)) {
	for _, withSQL := range []bool{false, true} {
		t.Run(map[bool]string{false: "pgx", true: "sql"}[withSQL], func(t *testing.T) {
			test(t, newBusiness(t, openTest(t), withSQL))
		})
	}
}

// inTx runs f in a transaction in which the charge is inserted.
func (b business) inTx(ctx context.Context, f func(ctx context.Context, end func() error) error) error {
	const insert = "INSERT INTO charges VALUES ('one')"
	if b.db != nil {
		return b.InSQLTx(ctx, b.db, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, insert)
			return errors.Join(err, f(ctx, tx.Commit))
		})
	}
	return b.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert)
		return errors.Join(err, f(ctx, func() error { return tx.Commit(ctx) }))
	})
}

func (b business) charge(ctx context.Context) error {
	return b.inTx(ctx, func(context.Context, func() error) error { return nil })
}

func (b business) charges(t *testing.T) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(context.Background(), "SELECT count(*) FROM charges").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// guarded runs work under the key "k" and returns what it returned.
func (b business) guarded(t *testing.T, work func(context.Context, *retrysafe.Attempt) error) error {
	t.Helper()
	return b.guardedAt(t, "k", work)
}

func (b business) guardedAt(t *testing.T, id string, work func(context.Context, *retrysafe.Attempt) error) error {
	t.Helper()
	return testkit.Guarded(t, b.Store, retrysafe.Key{ID: id}, work)
}

// Seen to fail with an ended transaction treated as success.
func TestInTxEndedByTheFunction(t *testing.T) {
	eachWay(t, func(t *testing.T, b business) {
		_ = b.guarded(t, func(ctx context.Context, _ *retrysafe.Attempt) error {
			err := b.inTx(ctx, func(_ context.Context, end func() error) error { return end() })
			if err == nil {
				t.Error("a transaction that the function has committed counts")
			}
			return err
		})
	})
}

// A function cannot end pgx's transaction by its methods, and one that has tried to completes nothing, whatever it
// returns: its deferred Rollback may have been meant. Begin makes savepoints. Seen to fail with refused taken out of
// InTx, and with the pgx.Tx of the pool.
func TestInTxRefusesToEnd(t *testing.T) {
	b := newBusiness(t, openTest(t), false)
	insert := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO charges VALUES ('one')")
		return err
	}
	for name, end := range map[string]func(context.Context, pgx.Tx) error{
		"Commit":            func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"Rollback":          func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"Rollback, ignored": func(ctx context.Context, tx pgx.Tx) error { _ = tx.Rollback(ctx); return nil },
	} {
		err := b.guarded(t, func(ctx context.Context, _ *retrysafe.Attempt) error {
			return retrysafe.Retryable(b.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				return errors.Join(insert(ctx, tx), end(ctx, tx))
			}))
		})
		if !errors.Is(err, errNotYours) || b.charges(t) != 0 {
			t.Errorf("%s: got %v and %d charges, want that it is refused", name, err, b.charges(t))
		}
	}
	err := b.guarded(t, func(ctx context.Context, _ *retrysafe.Attempt) error {
		return b.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			boom := errors.New("boom")
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return errors.Join(insert(ctx, tx), boom) })
			if !errors.Is(err, boom) {
				return err
			}
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return insert(ctx, tx) })
		})
	})
	if n := b.charges(t); err != nil || n != 1 {
		t.Errorf("with savepoints: got %v and %d charges, want 1", err, n)
	}
}

// A COMMIT whose answer is lost is looked up: it has happened, or it has not. Seen to fail with resolve returning nil,
// and with it returning the lost answer's error.
func TestInTxLostAnswer(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		t.Run(fmt.Sprint("arrives ", arrives), func(t *testing.T) {
			s := openTest(t)
			w := newWire(t, s.pool.Config().ConnString())
			b := newBusiness(t, openAt(t, w.url, Options{}), false)
			ran := 0
			err := b.guarded(t, func(ctx context.Context, a *retrysafe.Attempt) error {
				ran++
				err := b.inTx(ctx, func(context.Context, func() error) error {
					w.cut.Store(map[bool]int32{true: cutBehind, false: cutBefore}[arrives])
					return nil
				})
				if (err == nil) != arrives {
					t.Errorf("InTx: got %v", err)
				}
				return err
			})
			if (err == nil) != arrives || ran != 1 {
				t.Errorf("got %v after %d runs", err, ran)
			}
			if n := b.charges(t); n != map[bool]int{true: 1}[arrives] {
				t.Errorf("got %d charges", n)
			}
		})
	}
}

// A record that changes beside a transaction which has seen it before fails a strict one, and that can be tried again.
func TestInTxOfStricterIsolation(t *testing.T) {
	t.Parallel()
	b := newBusiness(t, openAt(t, shared.Get(t).Database(t)+strict, Options{}), false)
	err := b.guarded(t, func(ctx context.Context, a *retrysafe.Attempt) error {
		err := b.inTx(ctx, func(context.Context, func() error) error {
			execute(t, b.Store, "UPDATE {{schema}}.claims SET ends_at = ends_at + 1") // as a heartbeat does
			return nil
		})
		if sqlState(err) != serializationFailure {
			t.Errorf("InTx: got %v, want SQLSTATE 40001", err)
		}
		return errors.Join(retrysafe.SetResult(ctx, "charged"), b.charge(ctx))
	})
	if n := b.charges(t); err != nil || n != 1 {
		t.Errorf("got %v and %d charges, want 1", err, n)
	}
}

// What has become of a transaction is read once it has ended, whatever the database's default isolation.
// Seen to fail, with an unknown outcome, with s.pool.Begin in readCommitted.
func TestOutcomeIsReadOnceItIsThere(t *testing.T) {
	t.Parallel()
	s := openAt(t, shared.Get(t).Database(t)+strict, Options{})
	lease := acquire(t, s, "k")
	unlock := lockRow(t, s, lease.Key)
	read := make(chan error, 1)
	go func() {
		read <- s.resolve(context.Background(), newCompletion(lease, retrysafe.Result{}, retrysafe.Retention{}),
			io.ErrUnexpectedEOF)
	}()
	eventually(t, "the row is waited for", func() bool { return lockWaits(t, s) == 1 })
	unlock()
	if err := <-read; err == nil || !strings.Contains(err.Error(), "rolled back") {
		t.Errorf("got %v, want that the completion was rolled back", err)
	}
}

// wire passes bytes between a client and the server, and loses the COMMIT of a charge, or the answer to it.
type wire struct {
	url  string
	cut  atomic.Int32
	ends atomic.Bool // after a cut nothing passes any more
	down atomic.Bool
}

const (
	cutBefore = 1 // COMMIT does not arrive
	cutBehind = 2 // its answer does not
)

func newWire(t *testing.T, server string) *wire {
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{}
	u.Host = testkit.StartRelay(t, u.Host, w.connection)
	w.url = u.String()
	return w
}

// loseEnd is what a storetest.TxStore needs.
func (w *wire) loseEnd(_ *testing.T, carriedOut bool) (heal func()) {
	w.ends.Store(true)
	w.cut.Store(map[bool]int32{true: cutBehind, false: cutBefore}[carriedOut])
	return func() {
		w.ends.Store(false)
		w.down.Store(false)
	}
}

// connection says what is passed on of a new connection.
func (w *wire) connection() (sent, answered func(b []byte) bool) {
	var answerLost atomic.Bool
	charging := false
	return func(b []byte) bool {
		if w.down.Load() {
			return false
		}
		cut := int32(0)
		charging = charging || bytes.Contains(b, []byte("INSERT INTO charges")) ||
			bytes.Contains(b, []byte("INSERT INTO storetest_rows"))
		if charging && bytes.Contains(b, []byte("commit\x00")) { // not that of a sweep beside it
			cut, charging = w.cut.Swap(0), false
		}
		charging = charging && !bytes.Contains(b, []byte("rollback\x00"))
		if cut != 0 && w.ends.Load() {
			w.down.Store(true)
		}
		answerLost.Store(cut == cutBehind)
		return cut != cutBefore
	}, func([]byte) bool { return !answerLost.Load() }
}
