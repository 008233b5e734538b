package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"
)

// Outbox is a table of messages in the database that the business writes to. Its methods may be called by many goroutines
// at once.
type Outbox struct {
	db   *sql.DB
	sql  *statements
	walk walk
}

// Options of an Outbox. Options{} works.
type Options struct {
	// Table that holds the messages. Up to 40 lower-case letters, digits and underscores. Default "outbox".
	Table string
	// Schema that the table is in, for databases that have schemas: Migrate makes it if it is not there. Default: none is named, so that
	// the connection's search path decides.
	Schema string
}

// New returns an outbox on an open database, which the caller closes. It writes nothing: see Migrate. db is a handle of
// database/sql for every dialect; with pgx, stdlib.OpenDBFromPool makes one of a pool. It returns an error if the dialect or a name
// in o cannot be used.
func New(db *sql.DB, d Dialect, o Options) (*Outbox, error) {
	s, err := newStatements(d, o)
	if err != nil {
		return nil, err
	}
	return &Outbox{db: db, sql: s}, nil
}

// inTx runs f in a transaction that looks again at rows which others have changed meanwhile, whatever the database's default is.
func (b *Outbox) inTx(ctx context.Context, f func(*sql.Conn) error) error {
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // gives it back
	if _, err = conn.ExecContext(ctx, b.sql.begin); err == nil {
		err = f(conn)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, b.sql.commit)
	}
	if err != nil {
		b.rollback(ctx, conn)
	}
	return err
}

// rollbackTime is how long a rollback may take, whatever has become of the caller.
const rollbackTime = 5 * time.Second

// rollback ends the transaction. A connection that cannot do so is thrown away, which ends it too.
func (b *Outbox) rollback(ctx context.Context, conn *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	if _, err := conn.ExecContext(ctx, b.sql.rollback); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// run executes a statement in a transaction of its own, and returns how many rows it has changed.
func (b *Outbox) run(ctx context.Context, statement string, args ...any) (int, error) {
	var n int64
	err := b.inTx(ctx, func(conn *sql.Conn) error {
		r, err := conn.ExecContext(ctx, statement, args...)
		if err == nil {
			n, err = r.RowsAffected()
		}
		return err
	})
	return int(n), err
}

func fromMicros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
