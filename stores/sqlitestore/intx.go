package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

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
// retrysafe.SetResult. Otherwise InTx fails and rolls back. What a handler writes after InTx is an error: it would reach
// nobody. Nobody else writes to the file while f runs, so f should be short, must heed its context, and
// must not use the store, which fails with ErrInsideTransaction. f must not end tx, neither by its methods nor by SQL: InTx
// notices, completes nothing and returns an error. If what f wrote may have been committed, that error is marked
// retrysafe.Unknown, and the key is abandoned whatever the work returns.
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
	returnConn, err := s.writer.checkOut(ctx, a.Control().Lease())
	if err != nil {
		return fmt.Errorf("transaction of %s: %w", a.Key(), err)
	}
	defer returnConn()
	commits, stop, err := countCommits(s.writer.conn)
	if err != nil {
		return fmt.Errorf("transaction of %s: %w", a.Key(), err)
	}
	back := sync.OnceFunc(func() {
		stop()
		returnConn()
	})
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
	inside, steps := a.Control().StepsInTx(context.WithValue(ctx, holderKey{}, s.writer))
	t := &shared{store: s, tx: tx, back: back, commits: commits}
	if err := f(inside, tx); err != nil {
		a.Control().RolledBack()
		if ended := t.whole(); ended != nil && t.inDoubt() {
			a.Control().InDoubt()
			return errors.Join(ended, err)
		}
		return err
	}
	t.steps = steps()
	if !a.Protected() {
		if err := t.whole(); err != nil {
			return err
		}
		return t.commit(func(context.Context) bool { return false })
	}
	return a.Control().CompleteIn(s, t.complete)
}

// countCommits counts the commits on a connection until stop is called, which needs the connection as every other use does. A driver that cannot say when it commits counts one
// from the start.
func countCommits(conn *sql.Conn) (n *atomic.Int64, stop func(), err error) {
	n, stop = new(atomic.Int64), func() {}
	err = conn.Raw(func(driverConn any) error {
		hooks, ok := driverConn.(sqlite.HookRegisterer)
		if !ok {
			n.Add(1)
			return nil
		}
		hooks.RegisterCommitHook(func() int32 {
			n.Add(1)
			return 0 // go on
		})
		stop = func() { hooks.RegisterCommitHook(nil) }
		return nil
	})
	return n, stop, err
}

// shared is a transaction that business writes and a completion share.
type shared struct {
	store   *Store
	tx      *sql.Tx
	steps   []retrysafe.StepResult
	back    func()
	commits *atomic.Int64 // since before it began
}

// inDoubt reports whether something was committed, or may have been, by the function given to InTx.
func (t *shared) inDoubt() bool { return t.commits.Load() > 0 }

// complete writes the completion and commits. It gives the connection back before the engine goes on, because the
// engine may wait for a heartbeat, and a heartbeat may wait for the connection.
func (t *shared) complete(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	defer t.back()
	defer t.tx.Rollback()
	s := t.store
	e, now := newCompletion(l, r, keep), s.clock.now()
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
		s.watches.Wake(e.digest)
		s.sweeper.saved([]deadline{{id, now + e.keep.Audit}})
	}
	return err
}

// whole makes sure that the transaction is still the one that f was given. f may have ended it. SQLite rolls one back by itself when the
// disk is full; if f ignores that error, each statement after it is committed at once.
func (t *shared) whole() error {
	_, err := txRunner{t.tx, context.Background()}.exec("release_savepoint")
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, sql.ErrTxDone) && !strings.Contains(err.Error(), "no such savepoint"):
		return explain(t.store.path, err)
	case t.inDoubt():
		return retrysafe.Unknown(fmt.Errorf("the transaction was ended inside the function given to InTx, which must leave that to InTx; "+
			"nothing was completed, and what it wrote may have been committed: %w", err))
	}
	return fmt.Errorf("the transaction was rolled back inside the function given to InTx, by a statement or with an error that it ignored; "+
		"nothing was completed, and nothing of what it wrote remains: %w", err)
}

func (t *shared) save(e *completion, now instant) (id int64, err error) {
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
		yes = r != nil && r.State.Ended() && r.ClaimedUnder(c.lease)
		return err
	})
	return yes && err == nil
}
