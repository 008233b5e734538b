package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// CompleteTx completes the attempt that ctx belongs to in a transaction that the caller has begun, and commits itself:
// for code that has a transaction already, such as a unit of work for each request. Call it as the last statement,
// after the response is written, or [retrysafe.SetResult] called. What the transaction has written, the completion of
// the key, and the answer are committed together, or nothing is. So the work can be run again after a crash. Where the
// work can be a function, InTx does the same with fewer mistakes to make.
//
//	tx, err := pool.Begin(ctx)
//	if err != nil {
//		return err
//	}
//	defer tx.Rollback(ctx)
//	if err := store.HoldTx(ctx, tx); err != nil { // the commit needs CompleteTx from now on
//		return err
//	}
//	if err := queries.WithTx(tx).InsertCharge(ctx, charge); err != nil {
//		return err
//	}
//	w.WriteHeader(http.StatusCreated)
//	if err := store.CompleteTx(ctx, tx); err != nil {
//		return err
//	}
//	return tx.Commit(ctx)
//
// tx must be a transaction on the store's database, and must end before the work returns. The record says whether it
// was committed, so the answer to COMMIT may be lost, and it does not matter what the work returns after it. If it was
// rolled back, the attempt ends as the work says, and CompleteTx may be called in another transaction; but work that
// reports a success without a commit has an unknown outcome, because what it wrote is lost. Until it is known whether
// tx was committed, retries are told that the attempt is in flight, and nothing is released.
//
// An attempt is completed once: CompleteTx is an error inside InTx, after InTx, and a second time. Steps must come
// before it; one whose function writes to tx would be saved although tx is rolled back, so leave those to InTx.
//
// If CompleteTx returns an error, it has rolled tx back, so that a later Commit fails: [retrysafe.ErrLeaseLost], if
// another attempt has taken the key over; an error, if there is no result to save; and an error marked
// [retrysafe.Unknown], if tx had ended before. Only with [retrysafe.ErrNoAttempt], outside of an attempt, tx goes on.
// An attempt without protection, because the store failed when it began and the policy was FailOpen, is not completed,
// and CompleteTx returns nil.
func (s *Store) CompleteTx(ctx context.Context, tx pgx.Tx) error {
	return s.completeTx(ctx, pgxTx{tx})
}

// CompleteSQLTx is CompleteTx for users of database/sql, and of what is built on it.
func (s *Store) CompleteSQLTx(ctx context.Context, tx *sql.Tx) error {
	return s.completeTx(ctx, sqlTx{tx})
}

// HoldTx lets a transaction of the caller commit only if CompleteTx is called in it: otherwise Commit fails with the
// SQLSTATE RS008, and what was written is gone. Call it as the first statement, where a path through the work might
// commit and forget CompleteTx, or where a helper might commit before it. It takes one round trip and locks nothing.
//
// It returns [retrysafe.ErrLeaseLost] if another attempt has taken the key over or if the key has been completed, and
// [retrysafe.ErrNoAttempt] outside of an attempt. It may be repeated. For an attempt without protection it does
// nothing.
func (s *Store) HoldTx(ctx context.Context, tx pgx.Tx) error { return s.holdTx(ctx, pgxTx{tx}) }

// HoldSQLTx is HoldTx for users of database/sql.
func (s *Store) HoldSQLTx(ctx context.Context, tx *sql.Tx) error { return s.holdTx(ctx, sqlTx{tx}) }

func (s *Store) holdTx(ctx context.Context, tx transaction) error {
	a, ok := retrysafe.AttemptFrom(ctx)
	switch {
	case !ok:
		return retrysafe.ErrNoAttempt
	case !a.Protected():
		return nil
	}
	_, err := tx.exec(ctx, s.sql.hold, a.Control().Lease().Token())
	switch sqlState(err) {
	case "":
		return err
	case leaseLost, noSuchClaim, completedBefore:
		return fmt.Errorf("hold %s: %w: %w", a.Key(), retrysafe.ErrLeaseLost, err)
	}
	return fmt.Errorf("hold %s: %w", a.Key(), explain(err))
}

// SQLSTATEs of the function hold.
const (
	leaseLost       = "RS001"
	noSuchClaim     = "RS003"
	completedBefore = "RS004"
)

func (s *Store) completeTx(ctx context.Context, tx transaction) error {
	t := &sharedTx{tx, s, context.WithoutCancel(ctx)}
	return storekit.CompleteTx(ctx, s, retrysafe.OpenTx{Save: t.save}, t.Rollback)
}

// save writes a completion, and leaves the transaction open.
func (t *sharedTx) save(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	ctx, cancel := context.WithTimeout(t.end, endTime)
	defer cancel()
	// Outside of a transaction this fails, and each statement would be committed by itself.
	_, err := t.exec(ctx, "SAVEPOINT retrysafe_complete_tx")
	if err == nil {
		err = t.write(ctx, newCompletion(l, r, keep))
	}
	if err == nil { // for HoldTx
		_, err = t.exec(ctx, t.store.sql.markEnded, l.Token())
	}
	if sqlState(err) == noTransaction || errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, sql.ErrTxDone) {
		return errors.Join(storekit.ErrNoTx, err)
	}
	return err
}
