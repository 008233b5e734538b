package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// InTx runs f in a transaction on the store's file, and commits what f has written together with the completion of the
// attempt that ctx belongs to and the results of steps that f has run: all of it is on disk, or nothing is. So after a
// crash the work can be run again.
//
//	err := store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "INSERT INTO charges (customer, amount) VALUES (?, ?)", customer, amount)
//		return err
//	})
//
// The attempt's result must be known when f returns: a handler has written its response by then, other work has called
// retrysafe.SetResult. Nobody else writes to the file while f runs, so f should be short, must heed its context, and
// must not use the store, which fails with ErrInsideTransaction. f must not end tx.
//
// If f returns an error, InTx rolls back and returns that error; what f has written of an HTTP response is forgotten, so
// that the handler can say what happened instead. It returns retrysafe.ErrNoAttempt outside of an
// attempt, and retrysafe.ErrLeaseLost if another attempt has taken the key over: then nothing of f remains. An attempt
// without protection, because the store failed when it began and the policy was FailOpen, commits what f wrote and
// completes nothing.
func (s *Store) InTx(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	a, ok := retrysafe.AttemptFrom(ctx)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	back, err := s.writer.borrow(ctx, a.Lease())
	if err != nil {
		return fmt.Errorf("transaction of %s: %w", a.Key(), err)
	}
	defer back()
	// Only this function ends the transaction: an end of ctx in between must not, unseen.
	tx, err := s.writer.conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return fmt.Errorf("transaction of %s: %w", a.Key(), explain(s.path, err))
	}
	defer tx.Rollback() // does nothing after a commit
	if _, err := (txRunner{tx, context.Background()}).exec("savepoint"); err != nil {
		return fmt.Errorf("transaction of %s: %w", a.Key(), explain(s.path, err))
	}
	inside, steps := retrysafe.StepsInTx(context.WithValue(ctx, borrowedKey{}, s.writer))
	if err := f(inside, tx); err != nil {
		a.RolledBack()
		return err
	}
	t := &shared{store: s, tx: tx, steps: steps(), back: back}
	if !a.Protected() {
		if err := t.whole(); err != nil {
			return err
		}
		return t.commit(func(context.Context) bool { return false })
	}
	return a.CompleteIn(t.complete)
}

// shared is a transaction that business writes and a completion share.
type shared struct {
	store *Store
	tx    *sql.Tx
	steps []retrysafe.StepResult
	back  func()
}

// complete writes the completion and commits. It gives the connection back before the engine goes on, because the
// engine may wait for a heartbeat, and a heartbeat may wait for the connection.
func (t *shared) complete(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	defer t.back()
	defer t.tx.Rollback()
	s := t.store
	e, now := newEnding(l, r, keep), s.clock.now()
	if err := t.whole(); err != nil {
		return fmt.Errorf("complete %s: %w", l.Key, err)
	}
	// What f has written is only good together with this completion: one that is there already does not count.
	id, err := t.save(e, now)
	switch {
	case errors.Is(err, retrysafe.ErrLeaseLost):
		return fmt.Errorf("complete %s: %w", l.Key, err)
	case err != nil:
		return fmt.Errorf("complete %s: %w", l.Key, explain(s.path, err))
	}
	err = t.commit(func(ctx context.Context) bool { return s.completed(ctx, e.change) })
	if err == nil {
		s.watches.wake([]retrysafe.Digest{e.digest})
		s.sweeper.saved([]deadline{{id, now + e.keep.audit}})
	}
	return err
}

// whole makes sure that the transaction is still the one that f was given. SQLite rolls one back by itself when the disk is full, and where a
// statement says ROLLBACK; if f passes over that error, what it writes after it is committed at once.
func (t *shared) whole() error {
	_, err := txRunner{t.tx, context.Background()}.exec("release_savepoint")
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("the function given to InTx has ended the transaction itself: %w", err)
	case strings.Contains(err.Error(), "no such savepoint"):
		return fmt.Errorf("the transaction has ended inside the function given to InTx, by a statement, or by an error that was passed over: %w", err)
	}
	return explain(t.store.path, err)
}

func (t *shared) save(e *ending, now instant) (id int64, err error) {
	run := txRunner{t.tx, context.Background()}
	for _, step := range t.steps {
		if err := e.saveStep(run, now, step); err != nil {
			return 0, err
		}
	}
	return e.save(run, now)
}

// commit commits. If the answer is an error, it asks what has become of the transaction.
func (t *shared) commit(done func(context.Context) bool) error {
	err := t.tx.Commit()
	if err == nil || done(context.Background()) {
		return nil
	}
	return fmt.Errorf("commit: %w", explain(t.store.path, err))
}

// completed reports whether the file says that the lease has completed.
func (s *Store) completed(ctx context.Context, c change) (yes bool) {
	err := s.readers.read(ctx, func(run runner, now instant) error {
		r, err := c.find(run, now)
		yes = r != nil && r.state.Ended() && r.lastClaimedUnder(c.lease)
		return err
	})
	return yes && err == nil
}
