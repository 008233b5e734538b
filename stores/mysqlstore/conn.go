package mysqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

// conns are the connections of a Store. They come from the user's pool, but their sessions have settings that the
// user's code must not meet, so they never go back to it: Close and put close them.
type conns struct {
	db    *sql.DB
	keep  int
	setup []string

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// conn is a connection of a Store, with the statements that it has prepared.
type conn struct {
	*sql.Conn
	prepared map[preparedKey]*sql.Stmt
}

// queryer is a pool, a connection or a transaction.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// newConns makes the settings of all sessions independent of the data source name and of the server's configuration.
// A lock wait is short, because all operations of a batch wait together.
func newConns(db *sql.DB, o Options) *conns {
	return &conns{db: db, keep: o.Connections, setup: []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
		fmt.Sprintf("SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', timestamp = DEFAULT, "+
			"autocommit = 1, innodb_lock_wait_timeout = %d, lock_wait_timeout = %d, sql_safe_updates = 0, "+
			"sql_select_limit = DEFAULT, sql_big_selects = 1",
			int(storekit.Patience.Seconds()), max(1, int(o.Timeout.Seconds()))),
		"SET NAMES binary", // the values of prepared statements are bytes, whatever the collation of the session was
	}}
}

// get returns a connection. The caller puts it back.
func (c *conns) get(ctx context.Context) (*conn, error) {
	for conn := c.take(); conn != nil; conn = c.take() {
		if conn.valid() {
			return conn, nil
		}
		discard(conn)
	}
	return c.connect(ctx)
}

// take returns a connection that no operation uses, or nil.
func (c *conns) take() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return nil
	}
	conn := c.idle[n-1]
	c.idle = c.idle[:n-1]
	return conn
}

// valid reports whether the driver can use the connection. It closes one whose context has ended, perhaps just after
// the statement had its answer.
func (c *conn) valid() (so bool) {
	err := c.Raw(func(driverConn any) error {
		v, ok := driverConn.(driver.Validator)
		so = !ok || v.IsValid()
		return nil
	})
	return so && err == nil
}

// connect takes a connection of the pool. Those that the pool has may be broken, so it tries again once for each.
func (c *conns) connect(ctx context.Context) (*conn, error) {
	for tries := c.db.Stats().Idle + 1; ; tries-- {
		raw, err := c.db.Conn(ctx)
		if err != nil {
			return nil, fmt.Errorf("mysqlstore: connect: %w", err)
		}
		conn := &conn{Conn: raw, prepared: make(map[preparedKey]*sql.Stmt)}
		for _, text := range c.setup {
			if _, err = conn.ExecContext(ctx, text); err != nil {
				break
			}
		}
		if err == nil {
			return conn, nil
		}
		discard(conn)
		if !isConnectionError(err) || tries <= 0 {
			return nil, fmt.Errorf("mysqlstore: prepare a connection: %w", err)
		}
	}
}

// rollbackTime is how long the end of a transaction that has failed may take.
const rollbackTime = 5 * time.Second

// put takes a connection back, which is closed if it has failed or if there are enough, or if it leads to a server that
// is read-only: it would be used for ever, although by now there may be another primary. After an error a transaction
// may be open.
func (c *conns) put(conn *conn, err error) {
	if isReadOnly(err) {
		discard(conn)
		return
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
		_, err = conn.ExecContext(ctx, "ROLLBACK")
		cancel()
	}
	c.mu.Lock()
	if err == nil && !c.closed && len(c.idle) < c.keep {
		c.idle = append(c.idle, conn)
		conn = nil
	}
	c.mu.Unlock()
	if conn != nil {
		discard(conn)
	}
}

// drop closes the connections that no operation uses, and returns how many there were. When one is found broken the
// others may be too.
func (c *conns) drop() int {
	c.mu.Lock()
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, conn := range idle {
		discard(conn)
	}
	return len(idle)
}

func (c *conns) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.drop()
}

// discard closes a connection instead of returning it to the pool.
func discard(conn *conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// with runs f on a connection of the Store.
func (s *Store) with(ctx context.Context, f func(c *conn) error) error {
	c, err := s.conns.get(ctx)
	if err != nil {
		return err
	}
	err = f(c)
	s.conns.put(c, err)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err) // the driver closes the connection, and says only that
	}
	return err
}

// read is with for a function that only reads: if the connection was broken, it runs again on another one.
func (s *Store) read(ctx context.Context, f func(c *conn) error) error {
	err := s.with(ctx, f)
	if isConnectionError(err) && !errors.Is(err, sql.ErrNoRows) {
		s.conns.drop()
		err = s.with(ctx, f)
	}
	return err
}

// inTransaction runs f in a transaction on a connection of the Store.
func (s *Store) inTransaction(ctx context.Context, f func(c *conn) error) error {
	return s.with(ctx, func(c *conn) error {
		if _, err := c.ExecContext(ctx, "START TRANSACTION"); err != nil {
			return err
		}
		if err := f(c); err != nil {
			return err // put rolls back
		}
		_, err := c.ExecContext(ctx, "COMMIT")
		return err
	})
}

// lockName is the name of a lock of the server, which may have 64 characters.
func lockName(what, database string) string {
	return fmt.Sprintf("retrysafe_%s_%x", what, sha256.Sum256([]byte(database)))[:48]
}

var errLocked = errors.New("mysqlstore: another session holds the lock")

// locked runs f while conn holds a lock of the server, for which it waits at most so long. Otherwise it returns
// errLocked. The unlocking has a deadline of its own, because a server that has stopped answering would hold the caller
// up for ever; the server unlocks when it finds the connection closed.
func locked(ctx context.Context, conn *conn, name string, wait time.Duration, f func() error) error {
	var got sql.NullInt64
	text := fmt.Sprintf("SELECT GET_LOCK('%s', %d)", name, int(wait.Seconds()))
	if err := conn.QueryRowContext(ctx, text).Scan(&got); err != nil {
		return explain(err)
	}
	if got.Int64 != 1 {
		return errLocked
	}
	err := f()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	if _, unlocked := conn.ExecContext(ctx, "DO RELEASE_LOCK('"+name+"')"); err == nil {
		err = unlocked
	}
	return err
}
