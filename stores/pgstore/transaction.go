package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

// transaction is one of pgx or of database/sql.
type transaction interface {
	// exec runs a statement and returns how many rows it has touched or selected.
	exec(ctx context.Context, sql string, args ...any) (int64, error)
	commit(ctx context.Context) error
	// rollback does nothing after a commit.
	rollback(ctx context.Context) error
}

type pgxTx struct{ pgx.Tx }

func (t pgxTx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := t.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (t pgxTx) commit(ctx context.Context) error { return t.Commit(ctx) }

func (t pgxTx) rollback(ctx context.Context) error { return t.Rollback(ctx) }

// userTx is a transaction as the function given to InTx has it: only InTx ends it.
type userTx struct {
	pgx.Tx
	ended atomic.Bool // by Commit or Rollback, which were refused
}

var errNotYours = errors.New("pgstore: Commit and Rollback were refused inside InTx, " +
	"which commits when its function returns nil, and rolls back when it returns an error")

// Commit implements pgx.Tx.
func (t *userTx) Commit(context.Context) error { return t.refuse() }

// Rollback implements pgx.Tx.
func (t *userTx) Rollback(context.Context) error { return t.refuse() }

func (t *userTx) refuse() error {
	t.ended.Store(true)
	return errNotYours
}

// refused returns the error of a refused Commit or Rollback, in case the function has ignored it.
func (t *userTx) refused() error {
	if t.ended.Load() {
		return errNotYours
	}
	return nil
}

type sqlTx struct{ *sql.Tx }

func (t sqlTx) exec(ctx context.Context, text string, args ...any) (int64, error) {
	plain := make([]any, len(args))
	for i, a := range args {
		plain[i] = plainArg(a)
	}
	rows, err := t.QueryContext(ctx, text, plain...)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	var n int64
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

func (t sqlTx) commit(ctx context.Context) error { return storekit.Within(ctx, t.Commit) }

func (t sqlTx) rollback(ctx context.Context) error { return storekit.Within(ctx, t.Rollback) }

// plainArg is an argument of ours as every driver of database/sql can pass it on.
func plainArg(v any) any {
	switch v := v.(type) {
	case *uuid:
		return pgtype.UUID{Bytes: *v, Valid: true}.String()
	case *number:
		return int64(*v)
	case *boolean:
		return bool(*v)
	case *binary:
		return v.notNil()
	}
	return v
}

// Statements that look again at rows which others have changed meanwhile are read committed. Stricter ones, as may be
// the database's default, fail then: under many callers again and again, so that trying again would not do.
const (
	beginReadCommitted = "BEGIN ISOLATION LEVEL READ COMMITTED"
	endReadCommitted   = "COMMIT"
)

// isStrict reports whether transactions are stricter than that by default.
func isStrict(ctx context.Context, pool *pgxpool.Pool) (strict bool, err error) {
	const text = "SELECT current_setting('default_transaction_isolation') NOT LIKE 'read %'"
	if err = pool.QueryRow(ctx, text).Scan(&strict); err != nil {
		return false, fmt.Errorf("pgstore: read the default isolation: %w", explain(err))
	}
	return strict, nil
}

// readCommitted runs f in a transaction that is.
func (s *Store) readCommitted(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, f)
}
