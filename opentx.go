package retrysafe

import (
	"context"
	"errors"
)

// Attempts that complete their key in a transaction that the work itself commits: see CompleteTx of the stores. The
// completion is written, and only the record says whether it was committed. The Guard reads it, as in remote.go,
// when the work returns, or calls anything that depends on it. Nothing is saved or released before that is known.

// OpenTx is how a store writes a completion into a transaction that the work ends: see [AttemptControl.CompleteOpen].
type OpenTx struct {
	// Save writes the completion, and does not commit. Required.
	Save func(Lease, Result, Retention) error
	// Held reports that the transaction keeps all others from writing to the record, and that the record says that the
	// attempt is not completed. It is called if an earlier transaction may have completed the attempt. Nil: false, so that
	// the store is asked, which may not wait for the transaction.
	Held func(Lease) bool
	// Committed is called once it is known that the transaction was committed. Nil: the store need not know.
	Committed func()

	result Result
}

var (
	errNotCommitted = errors.New("retrysafe: the work reports a success, and the transaction in which CompleteTx has " +
		"completed the key was not committed: what it wrote is lost")
	errOpen = errors.New("retrysafe: the transaction in which CompleteTx has completed the key was neither committed " +
		"nor rolled back before the work returned, or the store does not say which")
)

// CompleteOpen lets a store complete the attempt inside an open database transaction, which the work commits later.
// Only one transaction at a time can complete an attempt: see BeginTx.
//
// When the work has returned, the record decides, not what the work says. If the transaction was committed, every
// request gets the saved result. If it was rolled back, the attempt ends as the work says, but a success becomes an
// unknown outcome: what it wrote is gone. If neither can be found out in time, because the transaction is still open or
// the store does not answer, Do returns a [Refusal] with [ErrInFlight], and the attempt is ended in the background.
//
// It returns the errors of BeginTx and CompleteIn. Then nothing must be committed: the store rolls the transaction
// back. An attempt that is not protected is not completed, and CompleteOpen returns nil.
func (c AttemptControl) CompleteOpen(ctx context.Context, s Store, tx OpenTx) error {
	a := c.a
	if !a.Protected() {
		return nil
	}
	if before := a.openTx(); before != nil && tx.Held != nil && tx.Held(a.lease) {
		a.settleAs(before, held)
	}
	if _, _, err := c.BeginTx(ctx); err != nil {
		return err
	}
	var err error
	if tx.result, err = c.complete(s, tx.Save); err != nil {
		c.RolledBack()
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = &tx
	return nil
}

// settle finds out what has become of the open transaction, if there is one. It reports false if that is not known yet.
func (a *Attempt) settle() bool {
	tx := a.openTx()
	if tx == nil {
		return true
	}
	now, _, err := a.ask()
	if err != nil {
		return false
	}
	a.settleAs(tx, now)
	return a.openTx() == nil
}

// settleAs notes what has become of tx, unless another goroutine has done so before.
func (a *Attempt) settleAs(tx *OpenTx, now standing) {
	a.mu.Lock()
	known, committed := a.open != tx, now == completed
	switch {
	case known:
	case committed:
		a.open, a.saved = nil, &tx.result
		a.state = finished // at once, so that a heartbeat does not take the lease for lost
	default:
		a.open, a.inTx, a.rolledBack = nil, nil, true
	}
	a.mu.Unlock()
	if known || !committed {
		return
	}
	a.finish()
	if tx.Committed != nil {
		tx.Committed()
	}
}

// openTx returns the transaction that may have completed the attempt, and whose end is not known; nil if there is none.
func (a *Attempt) openTx() *OpenTx {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open
}

// concludeOpen ends the attempt in the background, once it is known what has become of its open transaction.
func (a *Attempt) concludeOpen(r Result, err error) (Outcome, error) {
	r = r.Clone() // the caller may use its memory again
	a.report(SaveFailed, errOpen)
	end := a.guard.unsaved.add(a, nil)
	a.guard.background.start(end.retry, func() bool {
		if a.settle() {
			return true
		}
		end.hasFailed()
		return false
	}, func() {
		a.guard.unsaved.remove(end)
		if a.openTx() == nil {
			_, _ = a.conclude(r, err)
		} else {
			end.err = errOpen
			a.finish()
			a.report(SaveAbandoned, errOpen)
		}
		close(end.over)
	})
	return a.refusal(ErrInFlight)
}

// unlessLost returns how the work ended: an unknown outcome, if it reports a success although the transaction with its
// completion was rolled back.
func (a *Attempt) unlessLost(r Result, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rolledBack && err == nil && !r.Failed {
		return Unknown(errNotCommitted)
	}
	return err
}
