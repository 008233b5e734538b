package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
)

// InTx runs f in a transaction on the store's pool, and commits what f has written together with the completion of the
// attempt that ctx belongs to, the response that the handler has written so far, and the results of steps that f has
// run: all of it is there afterwards, or nothing is. So after a crash the work can be run again.
//
//	err := store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "INSERT INTO charges (customer, amount) VALUES ($1, $2)", customer, amount)
//		return err
//	})
//
// The attempt's result must be known when f returns: a handler has written its response by then, other work has called
// retrysafe.SetResult. If f returns an error, InTx rolls back and returns that error; what f has written of an HTTP
// response is forgotten, so that the handler can say what happened instead.
//
// f must not end the transaction. Commit and Rollback of tx refuse, and InTx then rolls back and returns an error. If f has
// ended it all the same, by SQL, InTx completes nothing; its error is marked retrysafe.Unknown, because what f wrote may
// have been committed, and the key is abandoned whatever the work returns. Begin makes savepoints, as in pgx.
//
// InTx returns retrysafe.ErrNoAttempt outside of an attempt, and an error that is retrysafe.ErrLeaseLost if another
// attempt has taken the key over: then nothing of f remains. When the answer to COMMIT is lost, it reads what has become of the
// transaction; if that cannot be found out either, it returns an error marked retrysafe.Unknown. An attempt without
// protection, because the store failed when it began and the policy was FailOpen, commits what f wrote and completes
// nothing.
//
// The transaction has the isolation that is the database's default. If that is repeatable read or serializable, it fails with
// SQLSTATE 40001 when the record has changed since its first statement, as it does with every heartbeat, each third of the
// lease: nothing of f remains, and InTx may be called again. A lease three times as long as the transaction avoids that.
func (s *Store) InTx(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.inTx(ctx, func(ctx context.Context) (transaction, error) {
		tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN;\n" + s.sql.markTx})
		return pgxTx{tx}, err
	}, func(ctx context.Context, t transaction) error {
		lent := &lentTx{Tx: t.(pgxTx).Tx}
		if err := f(ctx, lent); err != nil {
			return err
		}
		return lent.refused()
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
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
		if err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, s.sql.markTx); err != nil {
			return nil, errors.Join(err, tx.Rollback())
		}
		return sqlTx{tx}, nil
	}, func(ctx context.Context, t transaction) error { return f(ctx, t.(sqlTx).Tx) })
}

// endTime is how long the end of a transaction may take, whatever has become of the caller.
const endTime = 10 * time.Second

func (s *Store) inTx(ctx context.Context, begin func(context.Context) (transaction, error),
	f func(context.Context, transaction) error,
) error {
	a, ok := retrysafe.AttemptFrom(ctx)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	tx, err := begin(ctx)
	if err != nil {
		return fmt.Errorf("transaction of %s: %w", a.Key(), explain(err))
	}
	end, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer func() { _ = tx.rollback(end) }() // after a panic too
	inside, steps := a.Control().StepsInTx(ctx)
	t := &ending{store: s, tx: tx}
	if err := f(inside, tx); err != nil {
		a.Control().RolledBack()
		if ended := t.whole(end); errors.Is(ended, errEndedInside) {
			a.Control().InDoubt()
			return errors.Join(ended, err)
		}
		return err
	}
	t.steps = steps()
	if !a.Protected() {
		if err := t.whole(end); err != nil {
			return err
		}
		return t.commit(end, nil)
	}
	return a.Control().CompleteIn(s, func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
		ctx, cancel := context.WithTimeout(end, endTime)
		defer cancel()
		return t.complete(ctx, l, r, keep)
	})
}

// ending is the end of a transaction that business writes and a completion share.
type ending struct {
	store *Store
	tx    transaction
	steps []retrysafe.StepResult
}

// errEndedInside is the error of whole if the transaction is another one by now, or none.
var errEndedInside = errors.New("the transaction was ended inside the function given to InTx, which must leave that to InTx; " +
	"nothing was completed, and what it wrote may have been committed")

// whole makes sure that the transaction is still the one that f was given, and good for more statements. One that f has ended, and begun
// anew so that a statement then failed, looks like any other with a failed statement.
func (t *ending) whole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	n, err := t.tx.exec(ctx, t.store.sql.whole)
	switch {
	case err == nil && n == 1:
		return nil
	case err == nil, errors.Is(err, sql.ErrTxDone):
		return retrysafe.Unknown(errEndedInside)
	case sqlState(err) == failedTransaction:
		return fmt.Errorf("a statement failed inside the function given to InTx, which ignored the error; nothing was completed, and "+
			"nothing of what it wrote remains: %w", err)
	}
	return explain(err)
}

// complete writes the steps and the completion, and commits. What f has written is only good together with this completion:
// one that is there already does not count.
func (t *ending) complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	c := newCompletion(l, r, keep)
	if err := t.whole(ctx); err != nil {
		return fmt.Errorf("complete %s: %w", l.Key, err)
	}
	if err := t.write(ctx, c); err != nil {
		return fmt.Errorf("complete %s: %w", l.Key, explain(err))
	}
	return t.commit(ctx, c)
}

func (t *ending) write(ctx context.Context, c *change) error {
	if !t.store.grown.Load() {
		if _, err := t.tx.exec(ctx, t.store.sql.plannerSettings, nil); err != nil {
			return err
		}
	}
	for _, step := range t.steps {
		n, err := t.tx.exec(ctx, t.store.sql.steps[stepCheckpoint].one, newCheckpoint(c.lease, step).values...)
		if err != nil {
			return err
		}
		if n == 0 {
			return retrysafe.ErrLeaseLost
		}
	}
	n, err := t.tx.exec(ctx, t.store.sql.steps[stepComplete].one, c.values...)
	if err == nil && n == 0 {
		return retrysafe.ErrLeaseLost
	}
	return err
}

// commit commits. If the answer is lost, it reads what has become of the transaction; c is nil if there is nothing to read.
func (t *ending) commit(ctx context.Context, c *change) error {
	err := t.tx.commit(ctx)
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

// resolve reads whether a transaction whose COMMIT got no answer has been committed. The connection is lost, so the server ends
// the transaction, one way or the other: as long as it is open its completion holds the row, which FOR UPDATE waits for.
func (s *Store) resolve(ctx context.Context, c *change, lost error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	var state int16
	var err error
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		err = s.readCommitted(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, s.sql.outcome, c.values[:3]...).Scan(&state)
		})
		if err == nil || !isConnectionError(err) || errors.Is(err, pgx.ErrNoRows) {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return retrysafe.Unknown(fmt.Errorf("commit: %w; and the record is another attempt's by now, or gone", lost))
	case err != nil:
		return retrysafe.Unknown(fmt.Errorf("commit: %w; then asking what has become of it: %w", lost, err))
	case retrysafe.State(state).Ended():
		return nil
	}
	return fmt.Errorf("commit: rolled back: %w", lost)
}
