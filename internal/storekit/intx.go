package storekit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Tx is a transaction that the writes of the work share with the completion of its attempt.
type Tx interface {
	// Intact returns nil if the transaction is still the one that began, and takes more statements. Otherwise it says why
	// not, with an error that is ErrEndedInside if what was written may have been committed.
	Intact() error
	// Complete saves the steps and the result under the lease, and commits. It returns ErrLeaseLost if no row was changed,
	// also if this lease has completed before: what was written is only good together with this completion. After
	// ErrResultTooLarge, which it returns before it has written anything, it is called again with a smaller result.
	Complete(l retrysafe.Lease, steps []retrysafe.StepResult, r retrysafe.Result, keep retrysafe.Retention) error
	// Commit commits without a completion.
	Commit() error
	// Rollback rolls back what is not committed. After Commit and Complete it does nothing.
	Rollback()
}

// ErrEndedInside is the error of Intact if the function given to InTx has ended the transaction.
var ErrEndedInside = errors.New("the transaction was ended inside InTx, by a statement or an ignored error: nothing " +
	"was completed, and what was written may have been committed; leave COMMIT and ROLLBACK to InTx")

// InTx begins a transaction, runs f in it, and ends it as every store's InTx promises: with the completion of the
// attempt that ctx belongs to, or not at all, also after a panic of f. A second transaction of one attempt is refused
// before it begins, because the first completes the attempt.
func InTx[T Tx](
	ctx context.Context, s retrysafe.Store, begin func(context.Context, *retrysafe.Attempt) (T, error),
	f func(context.Context, T) error,
) error {
	a, ok := retrysafe.AttemptFrom(ctx)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	control := a.Control()
	inside, steps, err := control.BeginTx(ctx)
	if err != nil {
		return fmt.Errorf("transaction of %s: %w", a.Key(), err)
	}
	finished := false
	defer func() {
		if !finished { // an error of begin, or a panic
			control.RolledBack()
		}
	}()
	tx, err := begin(ctx, a)
	if err != nil {
		return fmt.Errorf("transaction of %s: %w", a.Key(), err)
	}
	defer tx.Rollback()
	err = f(inside, tx)
	finished = true
	if err != nil {
		control.RolledBack()
		if ended := tx.Intact(); errors.Is(ended, ErrEndedInside) {
			// The work may call its error retryable. It is not: something may have been committed.
			control.InDoubt()
			return errors.Join(retrysafe.Unknown(ended), err)
		}
		return err
	}
	saved, ended := steps(), intact(tx)
	if !a.Protected() {
		if ended != nil {
			return ended
		}
		return tx.Commit()
	}
	return control.CompleteIn(s, func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
		err := ended
		if err == nil {
			err = tx.Complete(l, saved, r, keep)
		}
		if err != nil {
			return fmt.Errorf("complete %s: %w", l.Key, err)
		}
		return nil
	})
}

func intact(tx Tx) error {
	err := tx.Intact()
	if errors.Is(err, ErrEndedInside) {
		return retrysafe.Unknown(err)
	}
	return err
}

// Begin calls begin with a context that ends with ctx as long as begin runs, and after that only with end: a transaction of
// database/sql is rolled back when the context ends with which it was begun. If ctx has ended before begin returned, Begin
// returns its error. begin may wait for ever otherwise, for a connection of a pool whose others wait for it.
func Begin[T any](ctx, end context.Context, begin func(context.Context) (T, error)) (tx T, err error) {
	begun, cancel := context.WithCancel(end)
	stop := context.AfterFunc(ctx, cancel)
	tx, err = begin(begun)
	if !stop() { // cancel has the transaction rolled back, if there is one
		err = ctx.Err()
	}
	return tx, err
}

// Within calls end, the Commit or Rollback of database/sql, which minds no context, and returns its error. If ctx ends
// first, it returns that there was no answer, and leaves end to return when the server answers or the connection
// breaks: a server that is cut off, or that waits for room on its disk, would otherwise hold up the caller for as long.
// Resolve then reads what has become of a COMMIT.
func Within(ctx context.Context, end func() error) error {
	answer := make(chan error, 1)
	go func() { answer <- end() }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the server has not answered: %w", ctx.Err())
	}
}

// Resolve reads what has become of a transaction whose COMMIT got no answer: lost is the error of that. It returns nil
// if the transaction was committed. The connection is lost, so the server ends the transaction, one way or the other:
// as long as it is open, also because COMMIT is still on its way, its completion holds the record, which read waits
// for. read returns the state that the attempt has left, 0 if there is no record of it; it is called again after an
// error that passes.
func Resolve(
	ctx context.Context, timeout time.Duration, lost error, read func(context.Context) (retrysafe.State, error),
	passes func(err error) bool,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	state, err := read(ctx)
	for pause := 50 * time.Millisecond; err != nil && passes(err) && ctx.Err() == nil; pause *= 2 {
		select {
		case <-time.After(pause):
			state, err = read(ctx)
		case <-ctx.Done():
		}
	}
	switch {
	case err != nil:
		return retrysafe.Unknown(fmt.Errorf("commit: %w; then asking what has become of it: %w", lost, err))
	case state == 0:
		return retrysafe.Unknown(fmt.Errorf("commit: %w; and the record is another attempt's by now, or gone", lost))
	case state.Ended():
		return nil
	}
	return fmt.Errorf("commit: rolled back: %w", lost)
}

// ErrNoTx is the error of OpenTx.Save if the work has ended the transaction before.
var ErrNoTx = errors.New("the transaction had ended before CompleteTx: nothing was completed, and what was written " +
	"may have been committed; call CompleteTx before Commit, and no statement that commits")

// CompleteTx writes the completion of the attempt that ctx belongs to into tx, as every store's CompleteTx promises. If
// it returns an error other than ErrNoAttempt, it has called rollback, so that what was written cannot be committed.
// tx.Save returns ErrLeaseLost if it has changed no row, also if this lease has completed before, and ErrNoTx if there
// is no transaction.
func CompleteTx(ctx context.Context, s retrysafe.Store, tx retrysafe.OpenTx, rollback func()) error {
	a, ok := retrysafe.AttemptFrom(ctx)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	control := a.Control()
	err := ctx.Err() // a transaction that was begun with it is rolled back
	if err == nil {
		err = control.CompleteOpen(ctx, s, tx)
	}
	if err == nil {
		return nil
	}
	rollback()
	if errors.Is(err, ErrNoTx) {
		control.InDoubt()
		err = retrysafe.Unknown(err)
	}
	return fmt.Errorf("complete %s: %w", a.Key(), err)
}
