package retrysafe

import (
	"context"
	"errors"
	"fmt"
)

// errPanicked is the error in the event WorkUnknown of work that a panic or runtime.Goexit has ended. How far it came
// is unknown.
var errPanicked = errors.New("retrysafe: the work panicked or ended its goroutine")

// do runs the work and concludes the attempt, however the work ends.
func (a *Attempt) do(work Work) (Outcome, error) {
	returned := false
	defer func() {
		if !returned { // a panic or runtime.Goexit, which goes on after this
			_, _ = a.conclude(Result{}, Unknown(errPanicked))
		}
	}()
	r, err := work(a, a)
	returned = true
	return a.conclude(r, err)
}

// conclude saves how the work ended.
func (a *Attempt) conclude(r Result, err error) (Outcome, error) {
	settled := a.settle()
	saved, inDoubt := a.workEnded()
	defer a.context.End(nil)
	switch {
	case !settled:
		return a.concludeOpen(r, err)
	case saved != nil:
		return a.concluded(*saved)
	}
	err = a.unlessLost(r, err)
	if err == nil {
		return a.complete(r, nil)
	}
	switch class := a.classOf(err); {
	case class == ClassRelease && !inDoubt:
		return a.release(err)
	case class == ClassRelease, class == ClassUnknown:
		return a.abandon(err)
	}
	_, code := markOf(err)
	return a.complete(failureResult(code, err.Error()), err)
}

// complete saves the result. If the store fails, saving goes on in the background, and the caller waits for it as long
// as the policy says. After that it gets the result all the same, because the work is done.
func (a *Attempt) complete(r Result, cause error) (Outcome, error) {
	r = a.guard.fit(r, a.guard.policy.MaxResult)
	if a.isElsewhere() {
		return a.completeElsewhere(r, cause)
	}
	if cause == nil && !r.Failed {
		a.reportUnused()
	}
	out := Outcome{Result: r, Attempt: a.number, ReplayLeft: a.guard.policy.Retention.Replay}
	if !a.Protected() {
		out.Unprotected, out.ReplayLeft = true, 0
		return out, failureOf(r, cause)
	}
	err := a.call(func(ctx context.Context) error { return a.save(ctx, &r) })
	switch {
	case errors.Is(err, ErrLeaseLost):
		return a.lost()
	case err != nil:
		end := a.guard.unsaved.add(a, &r)
		kept := *end.result // save may make it smaller
		a.later(end, err, func(ctx context.Context) error { return a.save(ctx, &kept) })
		if out.Stored, err = end.hold(); err != nil {
			return a.refusal(err)
		}
		if out.Stored {
			out.Result = kept.Clone()
		}
		return out, failureOf(out.Result, cause)
	}
	a.finish()
	out.Result, out.Stored = r, true
	a.report(endKind(r), cause)
	return out, failureOf(r, cause)
}

// concluded answers with the result that the work has saved in its own transaction.
func (a *Attempt) concluded(r Result) (Outcome, error) {
	if !r.Failed {
		a.reportUnused()
	}
	a.report(endKind(r), nil)
	out := Outcome{Result: r, Stored: true, Attempt: a.number, ReplayLeft: a.guard.policy.Retention.Replay}
	return out, failureOf(r, nil)
}

// release gives the key up: the work said that nothing happened.
func (a *Attempt) release(cause error) (Outcome, error) {
	out := Outcome{Attempt: a.number, Unprotected: !a.Protected()}
	if out.Unprotected {
		return out, &workError{cause}
	}
	give := func(ctx context.Context) error { return a.guard.store.Release(ctx, a.lease) }
	err := a.call(give)
	switch {
	case errors.Is(err, ErrLeaseLost):
		return a.lostOrCompleted()
	case err != nil:
		end := a.guard.unsaved.add(a, nil)
		a.later(end, err, give)
		a.undoDoubted()
		if a.isElsewhere() { // the other process may be about to complete
			return a.refusal(ErrInFlight)
		}
		if _, err := end.hold(); err != nil {
			return a.refusal(err)
		}
		return out, &workError{cause}
	}
	a.finish()
	a.report(WorkReleased, cause)
	a.undoDoubted()
	return out, &workError{cause}
}

// abandon ends the lease at once, so that the next request need not wait for it to run out. If the lease was lost, the
// key is not abandoned: another attempt has it, or it has an answer, which a retry gets.
func (a *Attempt) abandon(cause error) (Outcome, error) {
	out := Outcome{Attempt: a.number, Unprotected: !a.Protected()}
	if a.Protected() {
		switch err := a.giveUp(); {
		case errors.Is(err, ErrLeaseLost):
			return a.lostOrCompleted()
		case err != nil && a.isElsewhere(): // the other process may be about to complete
			a.later(a.guard.unsaved.add(a, nil), err, func(ctx context.Context) error {
				return a.guard.store.Extend(ctx, a.lease, 0)
			})
			return a.refusal(ErrInFlight)
		}
	}
	a.report(WorkUnknown, cause)
	return out, fmt.Errorf("%w: %w", ErrAbandoned, &workError{cause})
}

// lost returns the error of an attempt that was taken over: the store has refused its end.
func (a *Attempt) lost() (Outcome, error) {
	a.finish()
	a.reportTaken()
	return a.refusal(ErrLeaseLost)
}

// refusal answers the caller of an attempt whose end the store has refused, or does not know yet.
func (a *Attempt) refusal(reason error) (Outcome, error) {
	known := Record{Key: a.lease.Key, Fence: a.lease.Fence, Attempt: a.number, State: Pending}
	return Outcome{Attempt: a.number}, &Refusal{Reason: reason, Record: known}
}

// later repeats save in the background until it succeeds or the lease is lost. Heartbeats keep the lease alive
// meanwhile, and requests of this process that come for the key find end.
func (a *Attempt) later(end *unsavedEnd, err error, save func(context.Context) error) {
	a.mu.Lock()
	a.saveFailed = true
	a.mu.Unlock()
	a.report(SaveFailed, err)
	a.guard.waiting.wake(a.lease.Key)
	a.guard.background.start(end.retry, func() bool {
		if err = a.call(save); err == nil || errors.Is(err, ErrLeaseLost) {
			return true
		}
		end.hasFailed()
		return false
	}, func() {
		end.err = err
		a.guard.unsaved.remove(end)
		a.finish()
		kind := SavedLate
		if errors.Is(err, ErrLeaseLost) && a.isElsewhere() { // it was completed, or the key is another attempt's to end
			err = nil
		}
		if err != nil {
			kind = SaveAbandoned
		}
		a.report(kind, err)
		close(end.over)
	})
}

// call makes one call to the store, bounded in time, whether or not the caller still waits.
func (a *Attempt) call(f func(context.Context) error) error {
	err := a.guard.callStore(&a.caller, f)
	a.guard.heard(err)
	return err
}

func endKind(r Result) EventKind {
	if r.Failed {
		return WorkFailed
	}
	return WorkSucceeded
}

// save completes the attempt with the result.
func (a *Attempt) save(ctx context.Context, r *Result) error {
	return r.saveBy(func(r Result) error {
		return a.guard.store.Complete(ctx, a.lease, r, a.guard.policy.Retention)
	})
}

// saveBy calls save with the result, and with less of it as long as the store says that it will never take it.
func (r *Result) saveBy(save func(Result) error) error {
	for {
		if err := save(*r); !errors.Is(err, ErrResultTooLarge) || !r.shrink() {
			return err
		}
	}
}

// fit removes from r what is larger than the limit. The rest is saved: that the work has run matters more than its
// answer.
func (e *engine) fit(r Result, limit int) Result {
	for len(r.Meta)+len(r.Body) > limit && r.shrink() {
	}
	return r
}

// shrink drops the body, or what describes it. It reports false if both are gone.
func (r *Result) shrink() bool {
	switch {
	case len(r.Body) > 0:
		r.Body = nil
	case len(r.Meta) > 0:
		r.Meta = nil
	default:
		return false
	}
	r.Omitted = true
	return true
}

// errorMeta marks a result made from an error, so that a replay gives an error again.
const errorMeta = "retrysafe error"

// resolvedCode marks the result of a key that a person has resolved as failed without an answer: see ResolveFail. The
// mark is a code and not a text, because the code is kept when the answer is dropped: clients must be told "not
// executed" then too. It fits 32 bits, and no protocol uses it.
const resolvedCode = 0x7e7502

func (r Result) isResolvedFailure() bool { return r.Failed && r.Code == resolvedCode }

func failureResult(code int, message string) Result {
	return Result{Failed: true, Code: code, Meta: []byte(errorMeta), Body: []byte(message)}
}

// Failure returns the error that Guard.Do returns for r: that of work which failed with an error, or of a key that was
// resolved as failed without an answer. It is nil for all other results, also for those with which an adapter recorded
// a failure of its protocol, such as 404.
func (r Result) Failure() *Failure {
	switch {
	case r.isResolvedFailure():
		return &Failure{Resolved: true, Message: "the operation was not executed, and will not run under this key"}
	case r.Failed && string(r.Meta) == errorMeta:
		return &Failure{Code: r.Code, Message: string(r.Body)}
	}
	return nil
}

// failureOf returns the error that every caller gets for r; nil if r was not made from an error.
func failureOf(r Result, cause error) error {
	f := r.Failure()
	if f == nil {
		return nil
	}
	f.Cause = cause
	return f
}
