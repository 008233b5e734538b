package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"
)

// Outbox is a table of messages in the same database as the business data. Its methods are safe for concurrent use.
type Outbox struct {
	db   *sql.DB
	sql  *statements
	walk walk
}

// Options are the options of an Outbox. Options{} works.
type Options struct {
	// Table is the name of the table: up to 40 lower-case letters, digits and underscores, not starting with a digit.
	// Default "outbox".
	Table string
	// Schema is the schema of the table, for databases with schemas. Migrate creates it if it does not exist.
	// Default: statements name no schema, so the connection's search path decides.
	Schema string
}

// New returns an outbox on an open database, which the caller closes. It does not access the database; call Migrate
// to create the table. db is a database/sql handle for every dialect; for pgx, stdlib.OpenDBFromPool makes one from a
// pool. New returns an error if the dialect is unknown or a name in o is not allowed.
func New(db *sql.DB, d Dialect, o Options) (*Outbox, error) {
	s, err := newStatements(d, o)
	if err != nil {
		return nil, err
	}
	return &Outbox{db: db, sql: s}, nil
}

// inTx runs f in a READ COMMITTED transaction (SQLite: an immediate one), whatever the database's default isolation
// is, so that f sees what concurrent transactions have just committed.
func (b *Outbox) inTx(ctx context.Context, f func(*sql.Conn) error) error {
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // returns it to the pool
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

// rollbackTime is the timeout of a rollback, which also runs after the caller's context has ended.
const rollbackTime = 5 * time.Second

// rollback rolls the transaction back. If that fails, it closes the connection, which ends the transaction too.
func (b *Outbox) rollback(ctx context.Context, conn *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	if _, err := conn.ExecContext(ctx, b.sql.rollback); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// run executes one statement in a transaction of its own and returns the number of affected rows.
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
