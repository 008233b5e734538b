package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// InTx runs f in a transaction on the store's pool. It commits what f has written together with the completion of the
// attempt that ctx belongs to, the response that the handler has written so far, and the results of steps that f has
// run: all of it is there afterwards, or nothing is. So the work can be run again after a crash.
//
//	err := store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "INSERT INTO charges (customer, amount) VALUES ($1, $2)", customer, amount)
//		return err
//	})
//
// The attempt's result must be known when f returns: a handler has written its response by then, other work has called
// [retrysafe.SetResult]. If f returns an error, InTx rolls back and returns that error; what f has written of an HTTP
// response is forgotten, so that the handler can answer with the error.
//
// An attempt has one InTx: a second one, inside of it or after it, is refused before its f is called. After a rollback
// InTx may be called again. Steps inside run with the context that f is given; others are refused meanwhile.
//
// f must not end the transaction. Commit and Rollback of tx refuse, and InTx then rolls back and returns an error. If
// f has ended it all the same, by SQL, InTx completes nothing; its error is marked [retrysafe.Unknown], because what f
// wrote may have been committed, and the key is abandoned whatever the work returns. Begin makes savepoints, as in
// pgx.
//
// InTx returns [retrysafe.ErrNoAttempt] outside of an attempt, and an error that is [retrysafe.ErrLeaseLost] if another
// attempt has taken the key over: then nothing of f remains. When the answer to COMMIT is lost, it reads what has
// become of the transaction; if that cannot be found out either, it returns an error marked retrysafe.Unknown. An
// attempt without protection, because the store failed when it began and the policy was FailOpen, commits what f
// wrote and completes nothing.
//
// The transaction has the isolation that is the database's default. If that is repeatable read or serializable, it
// fails with SQLSTATE 40001 when the record has changed since its first statement, as it does with every heartbeat,
// each third of the lease: nothing of f remains, and InTx may be called again. A lease three times as long as the
// transaction avoids that.
func (s *Store) InTx(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.inTx(ctx, func(ctx context.Context) (transaction, error) {
		tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN;\n" + s.sql.markTx})
		return pgxTx{tx}, err
	}, func(ctx context.Context, t transaction) error {
		tx := &userTx{Tx: t.(pgxTx).Tx}
		if err := f(ctx, tx); err != nil {
			return err
		}
		return tx.refused()
	})
}

// InSQLTx is InTx for users of database/sql, and of what is built on it: db is any handle on the store's database, with
// any driver that knows $1 and text arrays. Commit and Rollback of tx do end the transaction; InTx notices, as it does
// with SQL.
//
//	err := store.InSQLTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "INSERT INTO charges (customer, amount) VALUES ($1, $2)", customer, amount)
//		return err
//	})
func (s *Store) InSQLTx(ctx context.Context, db *sql.DB, f func(ctx context.Context, tx *sql.Tx) error) error {
	return s.inTx(ctx, func(ctx context.Context) (transaction, error) {
		// Only inTx ends the transaction: an end of ctx in between must not, unseen.
		tx, err := storekit.Begin(ctx, context.WithoutCancel(ctx), func(ctx context.Context) (*sql.Tx, error) {
			return db.BeginTx(ctx, nil)
		})
		if err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, s.sql.markTx); err != nil {
			return nil, errors.Join(err, sqlTx{tx}.rollback(ctx))
		}
		return sqlTx{tx}, nil
	}, func(ctx context.Context, t transaction) error { return f(ctx, t.(sqlTx).Tx) })
}

// endTime is how long the end of a transaction may take, whatever has become of the caller.
const endTime = 10 * time.Second

func (s *Store) inTx(ctx context.Context, begin func(context.Context) (transaction, error),
	f func(context.Context, transaction) error,
) error {
	end, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	return storekit.InTx(ctx, s, func(ctx context.Context, _ *retrysafe.Attempt) (*sharedTx, error) {
		tx, err := begin(ctx)
		return &sharedTx{tx, s, end}, explain(err)
	}, func(ctx context.Context, t *sharedTx) error { return f(ctx, t.transaction) })
}

// sharedTx is a transaction that the writes of the work share with a completion. It implements storekit.Tx.
type sharedTx struct {
	transaction
	store *Store
	end   context.Context // what ends the transaction runs with it, whatever has become of the caller
}

// Intact implements storekit.Tx. A transaction that the work has ended, and begun anew so that a statement then
// failed, looks like any other with a failed statement.
func (t *sharedTx) Intact() error {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	n, err := t.exec(ctx, t.store.sql.isMarked)
	switch {
	case err == nil && n == 1:
		return nil
	case err == nil, errors.Is(err, sql.ErrTxDone):
		return storekit.ErrEndedInside
	case sqlState(err) == failedTransaction:
		return fmt.Errorf("a statement failed inside InTx, and its error was ignored: nothing was completed, and "+
			"nothing of what was written remains: %w", err)
	}
	return explain(err)
}

// Complete implements storekit.Tx.
func (t *sharedTx) Complete(
	l retrysafe.Lease, steps []retrysafe.StepResult, r retrysafe.Result, keep retrysafe.Retention,
) error {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	c := newCompletion(l, r, keep)
	if err := t.write(ctx, c, steps...); err != nil {
		return err
	}
	return t.commitWith(ctx, c)
}

// write saves steps, and then the result.
func (t *sharedTx) write(ctx context.Context, c *change, steps ...retrysafe.StepResult) error {
	if !t.store.grown.Load() {
		if _, err := t.exec(ctx, t.store.sql.plannerSettings, nil); err != nil {
			return explain(err)
		}
	}
	if err := t.addMissingDay(ctx); err != nil {
		return err
	}
	for _, step := range steps {
		if err := t.change(ctx, newCheckpoint(c.lease, step)); err != nil {
			return err
		}
	}
	return t.change(ctx, c)
}

// change runs the statement of a change as a part of the transaction.
func (t *sharedTx) change(ctx context.Context, c *change) error {
	if err := storekit.CheckSize(c.size, storekit.MaxContent); err != nil {
		return err
	}
	n, err := t.exec(ctx, t.store.sql.steps[c.Step].one, c.values...)
	if err == nil && n == 0 {
		return retrysafe.ErrLeaseLost
	}
	return explain(err)
}

// Commit implements storekit.Tx.
func (t *sharedTx) Commit() error {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	return t.commitWith(ctx, nil)
}

// Rollback implements storekit.Tx. After endTime it leaves the transaction to the server, which ends it when it finds
// the connection broken.
func (t *sharedTx) Rollback() {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	_ = t.rollback(ctx)
}

// commitWith commits. If the answer is lost, it reads what has become of c; nil: there is nothing to read.
func (t *sharedTx) commitWith(ctx context.Context, c *change) error {
	err := t.commit(ctx)
	switch {
	case err == nil:
		return nil
	case sqlState(err) != "", errors.Is(err, pgx.ErrTxCommitRollback): // the server has refused
		return fmt.Errorf("commit: %w", explain(err))
	case c == nil:
		return retrysafe.Unknown(fmt.Errorf("commit: %w", err))
	}
	return t.store.resolve(ctx, c, err)
}

// resolve reads whether a transaction whose COMMIT got no answer has been committed.
func (s *Store) resolve(ctx context.Context, c *change, lost error) error {
	return storekit.Resolve(ctx, s.options.Timeout, lost, func(ctx context.Context) (retrysafe.State, error) {
		var state int16
		err := s.readCommitted(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, s.sql.stateOf, c.values[:3]...).Scan(&state)
		})
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return retrysafe.State(state), err
	}, isConnectionError)
}
