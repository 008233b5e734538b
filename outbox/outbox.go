package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Outbox is a table of messages in the same database as the business data. Its methods are safe for concurrent use.
type Outbox struct {
	db          *sql.DB
	sql         *statements
	walk        walk
	table       string
	keys        AEAD
	decryptOnly bool
	secret      []byte
	// writing is held by what writes to SQLite, which lets one transaction do so at a time; nil on servers. Waiting for
	// it ends at once, while SQLite's own waiting sleeps, for up to 100 ms at a time.
	writing chan struct{}
}

// Options are the options of an Outbox. Options{} works.
type Options struct {
	// Table is the name of the table: up to 40 lower-case letters, digits and underscores, not starting with a digit.
	// Default "outbox".
	Table string
	// Schema is the schema of the table, for databases with schemas. Migrate creates it if it does not exist; on MySQL
	// it is a database, which must exist. Default: statements name no schema, so the connection's search path decides,
	// or its database.
	Schema string
	// Keys encrypt the header and the body of each message that Save writes. Relays and readers of dead letters decrypt
	// with them, and also take messages that are not encrypted, such as those of before. A *cryptstore.Keyring has keys
	// that can be rotated. Default: nothing is encrypted, and relays retry encrypted messages until they are dead letters.
	Keys AEAD
	// DecryptOnly has Keys decrypt, and what is saved not encrypted: for the first step of switching encryption on, while
	// other processes have no keys yet.
	DecryptOnly bool
	// Secret makes the digests unguessable by which Save recognises a message that it has saved before: without it, a
	// reader of the table can test guesses of a body. It has at least 16 bytes, which every program that saves has and
	// which do not change. Save needs it if there are Keys.
	Secret []byte
}

// New returns an outbox on an open database, which the caller closes. It does not access the database; call Migrate
// to create the table. db is a database/sql handle for every dialect; for pgx, stdlib.OpenDBFromPool makes one from a
// pool. New returns an error if the dialect is unknown, a name in o is not allowed, or o.Secret is too short.
func New(db *sql.DB, d Dialect, o Options) (*Outbox, error) {
	s, err := newStatements(d, o)
	if err != nil {
		return nil, err
	}
	if n := len(o.Secret); n > 0 && n < minSecret {
		return nil, fmt.Errorf("outbox: Options.Secret has %d bytes: use %d random ones or more", n, minSecret)
	}
	b := &Outbox{
		db: db, sql: s, table: cmp.Or(o.Table, defaultTable), keys: o.Keys, decryptOnly: o.DecryptOnly, secret: o.Secret,
	}
	if d == SQLite {
		b.writing = make(chan struct{}, 1)
	}
	return b, nil
}

// MaxWriters returns how many calls of Put can write at once: 1 on SQLite, otherwise as many as there are.
func (b *Outbox) MaxWriters() int {
	if b.writing != nil {
		return 1
	}
	return math.MaxInt
}

// write runs f, which writes. On SQLite it waits for the turn of this process.
func (b *Outbox) write(ctx context.Context, f func() error) error {
	if b.writing != nil {
		select {
		case b.writing <- struct{}{}:
			defer func() { <-b.writing }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f()
}

// inTx runs f in a READ COMMITTED transaction (SQLite: an immediate one), whatever the database's default isolation
// is, so that f sees what concurrent transactions have just committed.
func (b *Outbox) inTx(ctx context.Context, f func(*sql.Conn) error) error {
	return b.inTxOf(ctx, false, f)
}

// inTxOf is inTx. If async is set, a power cut may undo the transaction: see RelayOptions.AsyncMarks.
func (b *Outbox) inTxOf(ctx context.Context, async bool, f func(*sql.Conn) error) error {
	return b.write(ctx, func() error { return b.transaction(ctx, async, f) })
}

func (b *Outbox) transaction(ctx context.Context, async bool, f func(*sql.Conn) error) error {
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // returns it to the pool
	if async && b.writing != nil {
		restore, err := b.relax(ctx, conn)
		if err != nil {
			return err
		}
		defer restore()
	}
	if err = execEach(ctx, conn, b.sql.begin); err == nil {
		err = f(conn)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, b.sql.commit)
	}
	switch {
	case sqlState(err) == readOnlyTransaction:
		discard(conn)
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case err != nil:
		b.finish(ctx, conn, b.sql.rollback)
	}
	return err
}

// SQLSTATEs of PostgreSQL that mean something here.
const (
	serializationFailure = "40001"
	readOnlyTransaction  = "25006"
)

// sqlState returns the SQLSTATE of an error; "" if it has none. Drivers of PostgreSQL tell it by a method.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// discard closes a connection instead of returning it to the pool.
func discard(conn *sql.Conn) { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }

// finishTime is the timeout of a statement that also runs after the caller's context has ended.
const finishTime = 5 * time.Second

// finish executes a statement that releases something, such as a rollback. If that fails, it closes the connection,
// which releases everything.
func (b *Outbox) finish(ctx context.Context, conn *sql.Conn, text string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	if _, err := conn.ExecContext(ctx, text); err != nil {
		discard(conn)
	}
}

// synchronousFull is the value of SQLite's synchronous with which it syncs the disk at each commit; so does it with
// higher ones.
const synchronousFull = 2

// relax has SQLite not sync the disk at the commits of a connection until restore is called. Only a write-ahead log
// stays whole then in a power cut: its next sync is one of all that was written before.
func (b *Outbox) relax(ctx context.Context, conn *sql.Conn) (restore func(), err error) {
	var journal string
	var level int
	if err := conn.QueryRowContext(ctx, "SELECT journal_mode, synchronous FROM pragma_journal_mode, pragma_synchronous").Scan(&journal, &level); err != nil {
		return nil, err
	}
	if journal != "wal" || level < synchronousFull {
		return func() {}, nil
	}
	restore = func() { b.finish(ctx, conn, fmt.Sprintf("PRAGMA synchronous = %d", level)) }
	if _, err := conn.ExecContext(ctx, "PRAGMA synchronous = NORMAL"); err != nil {
		restore()
		return nil, err
	}
	return restore, nil
}

// run executes one statement in a transaction of its own and returns the number of affected rows.
func (b *Outbox) run(ctx context.Context, s statement, args ...any) (int, error) {
	return b.runIn(ctx, false, s, args...)
}

// runIn is run in a transaction of inTxOf.
func (b *Outbox) runIn(ctx context.Context, async bool, s statement, args ...any) (int, error) {
	var n int64
	err := b.inTxOf(ctx, async, func(conn *sql.Conn) error {
		r, err := conn.ExecContext(ctx, s.text, s.bind(args)...)
		if err == nil {
			n, err = r.RowsAffected()
		}
		return err
	})
	return int(n), err
}

func exec(ctx context.Context, conn *sql.Conn, s statement, args ...any) error {
	_, err := conn.ExecContext(ctx, s.text, s.bind(args)...)
	return err
}

// querier is a *sql.DB or a *sql.Conn.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func query(ctx context.Context, q querier, s statement, args ...any) (*sql.Rows, error) {
	return q.QueryContext(ctx, s.text, s.bind(args)...)
}

func queryRow(ctx context.Context, q querier, s statement, args ...any) *sql.Row {
	return q.QueryRowContext(ctx, s.text, s.bind(args)...)
}

// execEach executes the statements of a text one by one, because not every driver takes several at once. An empty line
// separates them, because the body of a function has statements of its own.
func execEach(ctx context.Context, conn *sql.Conn, text string) error {
	for one := range strings.SplitSeq(text, ";\n\n") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		if _, err := conn.ExecContext(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func fromMicros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
