package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// CompleteTx completes the attempt that ctx belongs to in a transaction that the caller has begun, and commits itself:
// for code that has a transaction already, such as a unit of work for each request. Call it as the last statement,
// after the response is written, or [retrysafe.SetResult] called. What the transaction has written, the completion of
// the key, and the answer are on disk together, or nothing is. So the work can be run again after a crash. Where the
// work can be a function, InTx does the same with fewer mistakes to make.
//
//	tx, err := db.BeginTx(ctx, nil)
//	if err != nil {
//		return err
//	}
//	defer tx.Rollback()
//	if _, err := tx.ExecContext(ctx, "INSERT INTO charges …"); err != nil {
//		return err
//	}
//	w.WriteHeader(http.StatusCreated)
//	if err := store.CompleteTx(ctx, tx); err != nil {
//		return err
//	}
//	return tx.Commit()
//
// tx must be a transaction on the store's file, begun as New says, and must end before the work returns. While it is
// open nothing else is written to the file, and a step or any other call of the store would wait for tx in vain.
//
// The record says whether tx was committed, so it does not matter what the work returns after it. If it was rolled
// back, the attempt ends as the work says, and CompleteTx may be called in another transaction; but work that reports a
// success without a commit has an unknown outcome, because what it wrote is lost. Until it is known whether tx was
// committed, retries are told that the attempt is in flight, and nothing is released.
//
// An attempt is completed once: CompleteTx is an error inside InTx, after InTx, and a second time.
//
// If CompleteTx returns an error, it has rolled tx back, so that a later Commit fails: [retrysafe.ErrLeaseLost], if
// another attempt has taken the key over; an error, if there is no result to save; and an error marked
// [retrysafe.Unknown], if the transaction had ended before. Only with [retrysafe.ErrNoAttempt], outside of an attempt,
// tx goes on. An attempt without protection, because the store failed when it began and the policy was FailOpen, is not
// completed, and CompleteTx returns nil.
func (s *Store) CompleteTx(ctx context.Context, tx *sql.Tx) error {
	t := &openTx{store: s, tx: tx, run: txRunner{tx, context.Background()}}
	return storekit.CompleteTx(ctx, s, retrysafe.OpenTx{
		Save: t.save, Held: t.held, Committed: func() { s.committed(t.digest, t.due) },
	}, func() { _ = tx.Rollback() })
}

// openTx is a transaction that the work ends.
type openTx struct {
	store  *Store
	tx     *sql.Tx
	run    txRunner
	digest retrysafe.Digest
	due    deadline
}

// save writes a completion, and leaves the transaction open.
func (t *openTx) save(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) (err error) {
	if err := storekit.CheckSize(len(r.Meta)+len(r.Body), storekit.MaxContent); err != nil {
		return err
	}
	if err := t.isOpen(); err != nil {
		return err
	}
	c := newCompletion(l, r, keep)
	t.digest = c.digest
	t.due, err = t.store.writeIn(t.run, c, nil)
	return err
}

// held reports whether the lease is pending. It takes the lock for writing first, so that no other transaction which
// may complete it is open.
func (t *openTx) held(l retrysafe.Lease) bool {
	if _, err := t.tx.Exec("UPDATE retrysafe_meta SET value = value WHERE false"); err != nil {
		return false
	}
	r, err := newChange(l).find(t.run, t.store.clock.now())
	return err == nil && r != nil && r.PendingUnder(l)
}

// isOpen returns an error if there is no transaction: because the work has ended it, or because SQLite has rolled it
// back by itself, for example on a full disk, and the work has ignored that error. Each statement is committed at once
// then. BEGIN fails in a transaction, and shows that there is one.
func (t *openTx) isOpen() error {
	_, err := t.tx.Exec("BEGIN")
	switch {
	case err != nil && strings.Contains(err.Error(), "within a transaction"):
		return nil
	case err == nil, errors.Is(err, sql.ErrTxDone):
		return errors.Join(storekit.ErrNoTx, err)
	}
	return explain(t.store.path, err)
}
