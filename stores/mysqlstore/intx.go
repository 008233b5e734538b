package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// InTx runs f in a transaction on db, which is any handle on a server with the store's tables, such as that of New. It
// commits what f has written together with the completion of the attempt that ctx belongs to, the response that the
// handler has written so far, and the results of steps that f has run: all of it is there afterwards, or nothing is. So
// the work can be run again after a crash.
//
//	err := store.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "INSERT INTO charges (customer, amount) VALUES (?, ?)", customer, amount)
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
// f must not end the transaction, by the methods of tx or by SQL. On MySQL each CREATE, ALTER, DROP, TRUNCATE, RENAME,
// GRANT and LOCK TABLES commits it too. InTx notices, completes nothing and returns an error that is marked
// [retrysafe.Unknown], because what f wrote may have been committed, and the key is abandoned whatever the work
// returns. The same happens if f ignores the error of a deadlock, because the server has rolled the transaction back
// and commits each statement after it by itself. All tables that f writes must be InnoDB's: others do not roll back.
//
// InTx returns [retrysafe.ErrNoAttempt] outside of an attempt, and an error that is [retrysafe.ErrLeaseLost] if another
// attempt has taken the key over: then nothing of f remains. When the answer to COMMIT is lost, it reads what has
// become of the transaction; if that cannot be found out either, it returns an error marked retrysafe.Unknown. An
// attempt without protection, because the store failed when it began and the policy was FailOpen, commits what f
// wrote and completes nothing.
//
// The transaction has the isolation and the settings that the sessions of db have.
func (s *Store) InTx(ctx context.Context, db *sql.DB, f func(ctx context.Context, tx *sql.Tx) error) error {
	// Only InTx ends the transaction: an end of ctx in between must not, unseen.
	end, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	return storekit.InTx(ctx, s, func(ctx context.Context, _ *retrysafe.Attempt) (*sharedTx, error) {
		s.haveDays(ctx)
		tx, err := storekit.Begin(ctx, end, func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) })
		if err != nil {
			return nil, explain(err)
		}
		if _, err := tx.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil {
			return nil, explain(errors.Join(err, storekit.Within(ctx, tx.Rollback)))
		}
		return &sharedTx{store: s, tx: tx, end: end}, nil
	}, func(ctx context.Context, t *sharedTx) error { return f(ctx, t.tx) })
}

// savepoint marks a transaction from its beginning. It is gone once the transaction has ended, by whatever statement.
const savepoint = "retrysafe_in_tx"

// endTime is how long the end of a transaction may take, whatever has become of the caller.
const endTime = 10 * time.Second

// sharedTx is a transaction that the writes of the work share with a completion. It implements storekit.Tx.
type sharedTx struct {
	store *Store
	tx    *sql.Tx
	end   context.Context // what ends the transaction runs with it, whatever has become of the caller
	noDay bool            // the partition of today is missing
}

// Intact implements storekit.Tx.
func (t *sharedTx) Intact() error {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	_, err := t.tx.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
	switch {
	case errorNumber(err) == noProcedure, errors.Is(err, sql.ErrTxDone):
		return storekit.ErrEndedInside
	case err != nil:
		return explain(err)
	}
	return nil
}

// Complete implements storekit.Tx.
func (t *sharedTx) Complete(
	l retrysafe.Lease, steps []retrysafe.StepResult, res retrysafe.Result, keep retrysafe.Retention,
) error {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	if err := t.write(ctx, l, steps, res, keep); err != nil {
		return err
	}
	if err := t.commit(&l); err != nil {
		return err
	}
	t.store.watches.Wake(l.Key.Digest())
	return nil
}

// write saves the steps and the result.
func (t *sharedTx) write(
	ctx context.Context, l retrysafe.Lease, steps []retrysafe.StepResult, res retrysafe.Result, keep retrysafe.Retention,
) error {
	for _, step := range steps { // before anything is written: see storekit.Tx
		if err := t.store.fits(2 * (len(step.Name) + len(step.Data))); err != nil {
			return fmt.Errorf("step %q: %w", step.Name, err)
		}
	}
	if err := t.store.fits(2 * (len(res.Meta) + len(res.Body))); err != nil {
		return err
	}
	digest := l.Key.Digest()
	locked, err := t.store.lockRows(ctx, t.tx, t.store.sql.lock, rows{{digest[:]}})
	if err != nil {
		return explain(err)
	}
	r, w := locked[digest], new(writes)
	if r != nil {
		r.saveSteps(w, steps)
	}
	if err := r.complete(w, l, res, storekit.NewKeep(keep)); err != nil {
		return err
	}
	if err := t.store.writeAll(ctx, t.tx, w); err != nil {
		t.noDay = errorNumber(err) == noPartition
		return explain(err)
	}
	return nil
}

// Commit implements storekit.Tx.
func (t *sharedTx) Commit() error { return t.commit(nil) }

// Rollback implements storekit.Tx. Only after it can a missing partition be made, for the next transaction: until then
// this one uses the table. After endTime the server ends the transaction when it finds the connection broken.
func (t *sharedTx) Rollback() {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	_ = storekit.Within(ctx, t.tx.Rollback)
	if t.noDay {
		t.noDay = false
		_ = t.store.addToday() // the next completion says so
	}
}

// commit commits. If the answer is lost, it reads what has become of the attempt under l; nil: there is nothing to
// read.
func (t *sharedTx) commit(l *retrysafe.Lease) error {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	err := storekit.Within(ctx, t.tx.Commit)
	switch {
	case err == nil:
		return nil
	case errorNumber(err) != 0: // the server has refused
		return fmt.Errorf("commit: %w", explain(err))
	case l == nil:
		return retrysafe.Unknown(fmt.Errorf("commit: %w", err))
	}
	return t.store.resolve(t.end, *l, err)
}

// resolve reads whether a transaction whose COMMIT got no answer has been committed.
func (s *Store) resolve(ctx context.Context, l retrysafe.Lease, lost error) error {
	d := l.Key.Digest()
	return storekit.Resolve(ctx, s.options.Timeout, lost, func(ctx context.Context) (state retrysafe.State, err error) {
		err = s.inTransaction(ctx, func(c *conn) error {
			return s.query(ctx, c, s.sql.stateOf, rows{{d[:], l.Owner[:], l.Fence}}, func(row *sql.Rows) error {
				return row.Scan(&state)
			})
		})
		return state, err
	}, func(err error) bool { return isConnectionError(err) || errorNumber(err) == lockWaitTimeout })
}
