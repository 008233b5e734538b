package outbox

import (
	"context"
	"database/sql"
	"fmt"
)

// SQLTx is a transaction of database/sql: a *sql.Tx or a type that embeds one. A *sql.DB or *sql.Conn does not
// implement it, so Save cannot be called outside a transaction.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Commit() error
	Rollback() error
}

// PgxTx is a pgx.Tx; R is pgconn.CommandTag. A pool or a connection of pgx does not implement it.
type PgxTx[R CommandTag] interface {
	Exec(ctx context.Context, sql string, args ...any) (R, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// CommandTag is the result of a statement in pgx.
type CommandTag interface{ RowsAffected() int64 }

// Save writes a message in the caller's transaction. The message is sent if the transaction commits, and never if it
// does not. Save neither commits nor rolls back. Inside pgstore.InSQLTx, mysqlstore.InTx and sqlitestore.InTx, pass the
// transaction that your function received. For pgx, see SavePgx.
//
// Save may be repeated: the same message under the same key is saved once, also if it was sent in between and is
// still kept. Inside an attempt, the first attempt that saves a message without a key decides its content; what a
// later attempt passes for it is ignored.
//
// The error is ErrInvalidMessage if the message exceeds a limit, and ErrKeyTaken if a different message has the key.
// If one attempt saves several messages with the same topic and aggregate, give each a Name.
func Save(ctx context.Context, box *Outbox, tx SQLTx, m Message) error {
	return save(ctx, box, m, func(statement string, args ...any) (int64, error) {
		r, err := tx.ExecContext(ctx, statement, args...)
		if err != nil {
			return 0, err
		}
		return r.RowsAffected()
	})
}

// SavePgx is Save for transactions of pgx, such as that of pgstore.InTx. The type R is inferred.
func SavePgx[R CommandTag](ctx context.Context, box *Outbox, tx PgxTx[R], m Message) error {
	return save(ctx, box, m, func(statement string, args ...any) (int64, error) {
		r, err := tx.Exec(ctx, statement, args...)
		if err != nil {
			return 0, err
		}
		return r.RowsAffected(), nil
	})
}

// save saves a message with exec, which returns the number of rows that a statement has written.
func save(ctx context.Context, box *Outbox, m Message, exec func(statement string, args ...any) (int64, error)) error {
	m, savedBy := keyed(ctx, m)
	if err := m.validate(); err != nil {
		return err
	}
	header, body, err := box.seal(m)
	if err != nil {
		return err
	}
	args := []any{[]byte(m.Key), []byte(m.Topic), []byte(m.Aggregate), header, body, m.digest(box.secret), savedBy}
	n, err := exec(box.sql.save.text, box.sql.save.bind(args)...)
	switch {
	case err != nil:
		return fmt.Errorf("outbox: save: %w", err)
	case n == box.sql.clash:
		return fmt.Errorf("%w: topic %q", ErrKeyTaken, m.Topic)
	}
	return nil
}
