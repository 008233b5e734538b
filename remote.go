package retrysafe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Attempts whose work another process does and completes: see AttemptControl.CompletedElsewhere. The record decides how
// they ended. The Guard reads it by claiming the key once more as the same owner, with the same parameters. As long as
// the attempt has the key, such a claim only renews its lease; once it is completed, the claim returns the result.

// remoteEnd is the end of an attempt that another process completes: the record decides.
type remoteEnd struct{ *Attempt }

// standing is what the record says of an attempt.
type standing uint8

const (
	held      standing = iota + 1 // the attempt has the key, and has not completed
	completed                     // it has completed
	freed                         // no attempt has the key: the other process has released it
	taken                         // another attempt has or had the key
)

// ask reads what the record says of the attempt. A key that the claim has taken from nobody, or from an attempt that
// came later and was abandoned, is given back.
func (a *Attempt) ask() (standing, Record, error) {
	p := a.claimParams()
	var c Claim
	err := a.call(func(ctx context.Context) (err error) {
		c, err = a.guard.store.Claim(ctx, p)
		return err
	})
	if c.Doubted {
		a.doubt()
	}
	switch {
	case errors.Is(err, ErrStoreFull): // the key is free, and there is no room to claim it
		return freed, Record{}, nil
	case err != nil:
		a.doubt()
		return 0, Record{}, err
	case c.Verdict == Acquired && c.Lease.Fence == a.lease.Fence:
		return held, c.Record, nil
	case c.Verdict == Done && c.Record.Fence == a.lease.Fence:
		return completed, c.Record, nil
	case c.Verdict == InFlight && c.Record.Fence == a.lease.Fence: // a transaction holds it
		return 0, Record{}, errUndecided
	case c.Verdict != Acquired:
		return taken, c.Record, nil
	}
	if a.call(func(ctx context.Context) error { return a.guard.restore(ctx, p, c) }) != nil {
		a.guard.undoClaim(p)
	}
	return freed, c.Record, nil
}

// claimParams are the parameters with which the attempt claimed the key.
func (a *Attempt) claimParams() ClaimParams {
	return ClaimParams{
		Key: a.lease.Key, Fingerprint: a.fingerprint, Owner: a.lease.Owner, Lease: a.guard.policy.Lease,
		Keep: a.guard.policy.Retention, TakeOver: a.takeOver, Async: a.guard.policy.AsyncClaim, Again: true,
	}
}

// doubt notes that a claim of the attempt may reach the store later.
func (a *Attempt) doubt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doubted = true
}

// undoDoubted undoes a claim of the attempt that reaches the store later. Call it when the attempt has ended without
// completing or abandoning the key, also if it has lost the key: a key that is completed or abandoned is safe from such
// a claim, a free one is not, such as one that a person has released.
func (a *Attempt) undoDoubted() {
	a.mu.Lock()
	doubted := a.doubted
	a.doubted = false
	a.mu.Unlock()
	if doubted {
		a.guard.undoClaim(a.claimParams())
	}
}

var (
	errRemoteReleased = errors.New("retrysafe: the process that does the work has released the key")
	errNotCompleted   = errors.New("retrysafe: the work has succeeded, and its process has not completed the key")
	errUndecided      = errors.New("retrysafe: the store does not say whether the attempt has completed")
)

// complete gives what another process has saved precedence over what the work has returned.
func (a remoteEnd) complete(r Result, cause error) (Outcome, error) {
	e := remoteResult{remoteEnd: a, result: r}
	known, err := e.decide()
	switch {
	case err == nil:
		a.finish()
		if !e.isSaved(known) {
			return a.completedAs(known)
		}
		a.report(endKind(r), cause)
		out := Outcome{Result: e.result, Stored: true, Attempt: a.number, ReplayLeft: known.ReplayLeft}
		return out, failureOf(e.result, cause)
	case errors.Is(err, errRemoteReleased) && r.Failed:
		a.finish()
		a.undoDoubted()
		a.report(WorkReleased, errRemoteReleased)
		return Outcome{Attempt: a.number}, &workError{errRemoteReleased}
	case errors.Is(err, ErrLeaseLost):
		return a.lost()
	}
	return a.undecided(err, func(context.Context) error {
		_, err := e.decide()
		return err
	})
}

// undecided refuses the caller, because the other process may be about to complete the key, and repeats end in the
// background until the attempt has ended. Then it is completed, or the key is another attempt's to end. A record that
// cannot be read has ended, or the store has given it back: to ask for it again, for as long as the process lives,
// would show no more.
func (a remoteEnd) undecided(err error, end func(context.Context) error) (Outcome, error) {
	a.later(a.guard.unsaved.add(a.Attempt, nil), err, func(ctx context.Context) error {
		switch err := end(ctx); {
		case errors.Is(err, ErrUnreadable):
			return fmt.Errorf("%w: %w", ErrLeaseLost, err)
		case errors.Is(err, ErrLeaseLost):
			a.undoDoubted()
			return nil
		default:
			return err
		}
	})
	return a.refusal(ErrInFlight)
}

func (a remoteEnd) releaseFailed(err, _ error) (Outcome, error) {
	defer a.undoDoubted()
	return a.undecided(err, a.giveBack)
}

func (a remoteEnd) abandonFailed(err, _ error) (Outcome, error) {
	return a.undecided(err, func(ctx context.Context) error { return a.guard.store.Extend(ctx, a.lease, 0) })
}

// remoteResult is what the work of such an attempt has returned.
type remoteResult struct {
	remoteEnd
	result  Result
	offered bool // the store was asked to save the result
}

// decide returns the record of the completed attempt. If the attempt still has the key, decide saves the work's result
// first, so that the work does not run again.
//
// It returns ErrLeaseLost if the attempt has lost the key; with errRemoteReleased, if no other attempt has it.
func (e *remoteResult) decide() (Record, error) {
	for range 3 { // Complete succeeds too if the other process has completed meanwhile: the record says with what
		now, known, err := e.ask()
		if err != nil {
			return Record{}, err
		}
		if now != held {
			if !e.result.Failed && (now != completed || e.isSaved(known)) {
				e.report(CompletionMissing, errNotCompleted)
			}
			return known, lossOf(now)
		}
		e.offered = true
		err = e.call(func(ctx context.Context) error { return e.save(ctx, &e.result) })
		if err != nil && !errors.Is(err, ErrLeaseLost) {
			return Record{}, err
		}
	}
	return Record{}, errUndecided
}

// isSaved reports whether the record has the work's result, and not that of another process.
func (e *remoteResult) isSaved(known Record) bool { return e.offered && known.Result.equal(e.result) }

// lossOf returns the error of an attempt that has neither the key nor a result.
func lossOf(now standing) error {
	switch now {
	case freed:
		return fmt.Errorf("%w: %w", ErrLeaseLost, errRemoteReleased)
	case taken:
		return ErrLeaseLost
	}
	return nil
}

// completedAs answers with the result that another process has saved.
func (a remoteEnd) completedAs(known Record) (Outcome, error) {
	r := known.Result
	r.Omitted = r.Omitted || known.ReplayLeft <= 0 // then the store has left out the answer
	a.report(endKind(r), nil)
	return Outcome{
		Result: r, Stored: true, CompletedElsewhere: true, Attempt: a.number, ReplayLeft: known.ReplayLeft,
	}, failureOf(r, nil)
}

func (r Result) equal(s Result) bool {
	return r.Failed == s.Failed && r.Code == s.Code && r.Omitted == s.Omitted &&
		bytes.Equal(r.Meta, s.Meta) && bytes.Equal(r.Body, s.Body)
}

// leaseLost asks for the record, because the other process may have completed the attempt.
func (a remoteEnd) leaseLost() (Outcome, error) {
	now, known, err := a.ask()
	switch {
	case err != nil:
		return a.undecided(err, func(context.Context) error {
			now, _, err := a.ask()
			return errors.Join(err, lossOf(now))
		})
	case now == completed:
		a.finish()
		return a.completedAs(known)
	}
	return a.lost()
}

func (a remoteEnd) heartbeatLost() { a.loseUnlessCompleted() }

// loseUnlessCompleted ends the work's context if another attempt has taken the key over. If the attempt was completed,
// there are no more heartbeats, and the work goes on: its answer may be on the way.
func (a *Attempt) loseUnlessCompleted() {
	now, _, err := a.ask()
	switch {
	case err != nil:
		a.plan(a.guard.policy.Lease / 10)
	case now == completed:
		a.guard.waiting.wake(a.lease.Key)
	case now == held: // renewed by ask
		a.plan(a.guard.beatEvery())
	default:
		a.lose()
	}
}
