package mysqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// wire makes connections that lose the end of a transaction which has written to storetest_rows.
type wire struct {
	loses      atomic.Bool // the next one
	carriedOut atomic.Bool
	down       atomic.Bool // after that nothing passes any more
}

var errCut = errors.New("the connection is cut")

// through returns dsn with connections of w.
func (w *wire) through(dsn string) string {
	mysql.RegisterDialContext("wire", func(ctx context.Context, address string) (net.Conn, error) {
		if w.down.Load() {
			return nil, errCut
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		return &cutConn{Conn: conn, wire: w}, err
	})
	return strings.Replace(dsn, "tcp(", "wire(", 1)
}

// loseEnd is what a storetest.TxStore needs.
func (w *wire) loseEnd(_ *testing.T, carriedOut bool) (heal func()) {
	w.carriedOut.Store(carriedOut)
	w.loses.Store(true)
	return func() { w.down.Store(false) }
}

type cutConn struct {
	net.Conn
	wire *wire
	rows bool // its transaction has written to storetest_rows
}

func (c *cutConn) Write(b []byte) (int, error) {
	switch {
	case c.wire.down.Load():
		return 0, errCut
	case bytes.Contains(b, []byte("INSERT INTO storetest_rows")):
		c.rows = true
	case c.rows && bytes.Contains(b, []byte("COMMIT")) && c.wire.loses.CompareAndSwap(true, false):
		c.wire.down.Store(true)
		if c.wire.carriedOut.Load() {
			if _, err := c.Conn.Write(b); err != nil {
				return 0, err
			}
			if _, err := c.Read(make([]byte, 100)); err != nil { // the server has answered
				return 0, err
			}
		}
		return len(b), c.Close()
	case bytes.Contains(b, []byte("COMMIT")), bytes.Contains(b, []byte("ROLLBACK")):
		c.rows = false
	}
	return c.Conn.Write(b)
}

// The end of a transaction that the network has swallowed, without a word to either side, holds the caller up for the
// time that is for it. After a COMMIT the transaction is still open, and the outcome is unknown. Seen to fail with
// t.tx.Commit, and with t.tx.Rollback, in the place of Within: InTx had not returned after two minutes.
func TestSwallowedEnd(t *testing.T) {
	t.Parallel()
	dsn := shared.Get(t).Database(t)
	s := openAt(t, dsn, Options{Timeout: time.Second})
	execute(t, s, "CREATE TABLE charges (id INT) ENGINE = InnoDB")
	failed := errors.New("the work has failed")
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			db := openPool(t, swallowing(t, dsn, end))
			testkit.Returns(t, func() {
				_ = testkit.Guarded(t, s, retrysafe.Key{ID: end}, func(ctx context.Context, _ *retrysafe.Attempt) error {
					err := s.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
						_, err := tx.ExecContext(ctx, "INSERT INTO charges (id) VALUES (1)")
						if err == nil && end == "ROLLBACK" {
							err = failed
						}
						return err
					})
					unknown := err != nil && strings.Contains(err.Error(), "then asking what has become of it")
					if end == "COMMIT" && !unknown || end == "ROLLBACK" && !errors.Is(err, failed) {
						t.Errorf("InTx = %v", err)
					}
					return err
				})
			})
		})
	}
}

// A server that stops answering when a sweep gives its lock back does not hold up the sweeper for ever.
// Seen to fail without the deadline in locked: Sweep had not returned after two minutes.
func TestSwallowedUnlock(t *testing.T) {
	t.Parallel()
	dsn := shared.Get(t).Database(t)
	openAt(t, dsn, Options{})
	s := openOn(t, openPool(t, swallowing(t, dsn, "RELEASE_LOCK")), Options{})
	testkit.Returns(t, func() {
		if _, err := s.Sweep(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sweep = %v, want that the unlocking took too long", err)
		}
	})
}

// swallowing returns dsn with connections that swallow what the client sends if it contains the text.
func swallowing(t *testing.T, dsn, text string) string {
	t.Helper()
	var conns sync.Map
	mysql.RegisterDialContext("swallowing"+text, func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			conns.Store(conn, nil)
		}
		return swallowingConn{conn, []byte(text)}, err
	})
	t.Cleanup(func() { // so that the server ends the transaction, and the database can be dropped
		conns.Range(func(conn, _ any) bool { _ = conn.(net.Conn).Close(); return true })
	})
	return strings.Replace(dsn, "tcp(", "swallowing"+text+"(", 1)
}

type swallowingConn struct {
	net.Conn
	text []byte
}

func (c swallowingConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, c.text) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// A server may say why before it closes a connection that was idle for too long, and reads no further statement from
// it. The operation that finds the connection so is sent again on another one. The server of the tests says nothing;
// the connection does in its place.
//
// Seen to fail with idleTooLong left out of errorNumber: the claim failed with error 4031.
func TestConnectionThatWasIdleForTooLong(t *testing.T) {
	t.Parallel()
	dsn := shared.Get(t).Database(t)
	openAt(t, dsn, Options{})
	idle := new(atomic.Bool)
	mysql.RegisterDialContext("idle", func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		return &idleConn{Conn: conn, idle: idle}, err
	})
	s := openOn(t, openPool(t, strings.Replace(dsn, "tcp(", "idle(", 1)), Options{})
	acquire(t, s, "before")
	idle.Store(true)
	acquire(t, s, "after")
	if idle.Load() {
		t.Error("the connection was not used again")
	}
}

// idleConn is a connection on which the next statement is answered, once idle is set, as MySQL does after wait_timeout.
type idleConn struct {
	net.Conn
	idle *atomic.Bool
	last io.Reader // what the server has sent before it closed the connection; nil: it has not
}

func (c *idleConn) Write(b []byte) (int, error) {
	if c.idle.CompareAndSwap(true, false) {
		const told = "\xff\xbf\x0f#HY000The client was disconnected by the server because of inactivity."
		c.last = strings.NewReader(string([]byte{byte(len(told)), 0, 0, 0}) + told)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *idleConn) Read(b []byte) (int, error) {
	if c.last != nil {
		return c.last.Read(b)
	}
	return c.Conn.Read(b)
}
