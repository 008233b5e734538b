package mysqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// CompleteTx completes the attempt that ctx belongs to in a transaction that the caller has begun, and commits itself:
// for code that has a transaction already, such as a unit of work for each request. Call it as the last statement,
// after the response is written, or [retrysafe.SetResult] called. What the transaction has written, the completion of
// the key, and the answer are committed together, or nothing is. So the work can be run again after a crash. Where the
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
// tx must be a transaction on the store's server, and must end before the work returns. The record says whether it was
// committed, so the answer to COMMIT may be lost, and it does not matter what the work returns after it. If it was
// rolled back, the attempt ends as the work says, and CompleteTx may be called in another transaction; but work that
// reports a success without a commit has an unknown outcome, because what it wrote is lost. Until it is known whether
// tx was committed, retries are told that the attempt is in flight, and nothing is released.
//
// An attempt is completed once: CompleteTx is an error inside InTx, after InTx, and a second time. Steps must come
// before it; one whose function writes to tx would be saved although tx is rolled back, so leave those to InTx.
//
// If CompleteTx returns an error, it has rolled tx back, so that a later Commit fails: [retrysafe.ErrLeaseLost], if
// another attempt has taken the key over; an error, if there is no result to save; and an error marked
// [retrysafe.Unknown], if the transaction had ended before, by a statement that commits, or by a deadlock whose error
// was ignored. If tx has begun another transaction since, that is not noticed. Only with [retrysafe.ErrNoAttempt],
// outside of an attempt, tx goes on. An attempt without protection, because the store failed when it began and the
// policy was FailOpen, is not completed, and CompleteTx returns nil.
//
// If nothing has swept for a week, the partition of today is missing, and CompleteTx fails once: the partition can only
// be made after the rollback. InTx makes it before its transaction begins.
func (s *Store) CompleteTx(ctx context.Context, tx *sql.Tx) error {
	t := &sharedTx{store: s, tx: tx, end: context.WithoutCancel(ctx)}
	var digest retrysafe.Digest
	return storekit.CompleteTx(ctx, s, retrysafe.OpenTx{
		Save: func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
			digest = l.Key.Digest()
			return t.save(l, r, keep)
		},
		Committed: func() { s.watches.Wake(digest) },
	}, t.Rollback)
}

// save writes a completion, and leaves the transaction open.
func (t *sharedTx) save(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	_, err := t.tx.ExecContext(ctx, "SAVEPOINT "+savepoint)
	if err == nil {
		err = t.Intact() // outside of a transaction the savepoint is gone, and each statement is committed by itself
	}
	switch {
	case errors.Is(err, storekit.ErrEndedInside), errors.Is(err, sql.ErrTxDone):
		return storekit.ErrNoTx
	case err != nil:
		return explain(err)
	}
	return t.write(ctx, l, nil, r, keep)
}
