package mysqlstore

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
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
