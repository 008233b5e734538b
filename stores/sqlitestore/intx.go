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
	"github.com/retrysafe/retrysafe/internal/storekit"
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
// The attempt's result must be known when f returns: a handler has written its response by then, other work has
// called [retrysafe.SetResult]. Otherwise InTx fails and rolls back. What a handler writes of its response after InTx
// is an error, because the response is saved already.
//
// An attempt has one InTx: a second one, inside of it or after it, is refused before its f is called. After a rollback
// InTx may be called again. Steps inside run with the context that f is given; others are refused meanwhile.
//
// No other operation writes to the file while f runs, so f should be short, must heed its context, and must not use
// the store, which fails with [ErrInsideTransaction]. f must not end tx, by its methods or by SQL: InTx notices,
// completes nothing and returns an error. If what f wrote may have been committed, that error is marked
// [retrysafe.Unknown], and the key is abandoned whatever the work returns.
//
// If f returns an error, InTx rolls back and returns that error; what f has written of an HTTP response is forgotten,
// so that the handler can answer with the error. It returns [retrysafe.ErrNoAttempt] outside of an attempt, and
// [retrysafe.ErrLeaseLost] if another attempt has taken the key over: then nothing of f remains. An attempt without
// protection, because the store failed when it began and the policy was FailOpen, commits what f wrote and completes
// nothing.
func (s *Store) InTx(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	return storekit.InTx(ctx, s, s.beginShared, func(ctx context.Context, t *sharedTx) error {
		return f(context.WithValue(ctx, holderKey{}, s.writer), t.tx)
	})
}

// beginShared begins a transaction on the connection that writes, which it checks out for the attempt.
func (s *Store) beginShared(ctx context.Context, a *retrysafe.Attempt) (*sharedTx, error) {
	returnConn, err := s.writer.checkOut(ctx, a.Control().Lease())
	if err != nil {
		return nil, err
	}
	commits, stop, err := countCommits(s.writer.conn)
	if err != nil {
		returnConn()
		return nil, err
	}
	release := sync.OnceFunc(func() {
		stop()
		returnConn()
	})
	// Only InTx ends the transaction: an end of ctx in between must not, unseen.
	tx, err := s.writer.conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		release()
		return nil, explain(s.path, err)
	}
	t := &sharedTx{store: s, tx: tx, run: txRunner{tx, context.Background()}, release: release, commits: commits}
	if _, err := t.run.exec("savepoint"); err != nil {
		t.Rollback()
		return nil, explain(s.path, err)
	}
	return t, nil
}

// countCommits counts the commits on a connection until stop is called, which needs the connection as every other use
// does. A driver that cannot say when it commits counts one from the start.
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

// sharedTx is a transaction that the writes of the work share with a completion. It implements storekit.Tx.
type sharedTx struct {
	store   *Store
	tx      *sql.Tx
	run     txRunner      // in tx
	release func()        // returns the connection
	commits *atomic.Int64 // on the connection, since before tx began
}

// Intact implements storekit.Tx. SQLite rolls a transaction back by itself when the disk is full, for example; if the
// work ignores that error, each statement after it is committed at once.
func (t *sharedTx) Intact() error {
	_, err := t.run.exec("release_savepoint")
	switch {
	case err == nil:
		return nil
	case t.commits.Load() > 0:
		return fmt.Errorf("%w: %w", storekit.ErrEndedInside, err)
	case errors.Is(err, sql.ErrTxDone), strings.Contains(err.Error(), "no such savepoint"):
		return fmt.Errorf("the transaction was rolled back inside InTx, by a statement or an ignored error: nothing "+
			"was completed, and nothing of what was written remains: %w", err)
	}
	return explain(t.store.path, err)
}

// Complete implements storekit.Tx. It returns the connection before the engine goes on, because the engine may wait
// for a heartbeat, and a heartbeat may wait for the connection.
func (t *sharedTx) Complete(
	l retrysafe.Lease, steps []retrysafe.StepResult, r retrysafe.Result, keep retrysafe.Retention,
) error {
	if err := storekit.CheckSize(len(r.Meta)+len(r.Body), storekit.MaxContent); err != nil {
		return err
	}
	defer t.Rollback()
	s, c := t.store, newCompletion(l, r, keep)
	due, err := s.writeIn(t.run, c, steps)
	if err != nil {
		return err
	}
	err = t.commit(func() (bool, error) { return s.completed(context.Background(), c.change) })
	if err == nil {
		s.committed(c.digest, due)
	}
	return err
}

// writeIn saves the steps and the result in a transaction, and returns when the record is due.
func (s *Store) writeIn(run runner, c *completion, steps []retrysafe.StepResult) (deadline, error) {
	now := s.clock.now()
	for _, step := range steps {
		if err := c.saveStep(run, now, step); err != nil {
			return deadline{}, s.explainChange(err)
		}
	}
	id, err := c.save(run, now)
	if err != nil {
		return deadline{}, s.explainChange(err)
	}
	return deadline{id, now + c.keep.Audit}, nil
}

// committed is called once a transaction with a completion is on disk.
func (s *Store) committed(d retrysafe.Digest, due deadline) {
	s.watches.Wake(d)
	s.sweeper.saved([]deadline{due})
}

// explainChange explains an error of SQLite, and leaves an answer as it is.
func (s *Store) explainChange(err error) error {
	if isAnswer(err) {
		return err
	}
	return explain(s.path, err)
}

// Commit implements storekit.Tx.
func (t *sharedTx) Commit() error { return t.commit(func() (bool, error) { return false, nil }) }

// Rollback implements storekit.Tx.
func (t *sharedTx) Rollback() {
	_ = t.tx.Rollback()
	t.release()
}

// commit commits. If SQLite answers with an error, committed says what has become of the transaction.
func (t *sharedTx) commit(committed func() (bool, error)) error {
	err := t.tx.Commit()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("commit: %w", explain(t.store.path, err))
	done, readErr := committed()
	switch {
	case readErr != nil:
		return retrysafe.Unknown(fmt.Errorf("%w; then asking what has become of it: %w", err, readErr))
	case done:
		return nil
	}
	return err
}

// completed reports whether the file says that the lease has completed.
func (s *Store) completed(ctx context.Context, c change) (yes bool, err error) {
	err = s.readers.read(ctx, func(run runner, now instant) error {
		r, err := c.find(run, now)
		yes = r != nil && r.State.Ended() && r.ClaimedUnder(c.lease)
		return err
	})
	return yes, err
}
