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
		if err != nil {
			a.report(AnswerDiscarded, err)
		}
		return a.concluded(*saved)
	}
	if err = a.unlessLost(r, err); err != nil {
		switch class := a.classOf(err); {
		case class == ClassRelease && !inDoubt:
			return a.release(err)
		case class == ClassRelease, class == ClassUnknown:
			return a.abandon(err)
		}
		_, code := markOf(err)
		r = failureResult(code, err.Error())
	}
	return a.end().complete(a.guard.fit(r, a.guard.policy.MaxResult), err)
}

// classOf returns the class of an error that the work returned. An error without a mark is ambiguous; if the Guard has
// ended the work's context before, as after Policy.Timeout, most likely the work was interrupted.
func (a *Attempt) classOf(err error) Class {
	class, _ := markOf(err)
	switch {
	case class != 0:
		return class
	case a.Err() != nil:
		return ClassUnknown
	}
	return AmbiguousPolicy(0).Or(a.guard.policy).Apply(ClassAmbiguous)
}

// attemptEnd is how an attempt ends, and what decides it: what the work returns (localEnd), or the record, because
// another process does the work (remoteEnd). What the methods return is what the caller of Do gets.
type attemptEnd interface {
	// complete ends an attempt whose work has returned a result; cause is the error that the result was made from.
	complete(r Result, cause error) (Outcome, error)
	// releaseFailed goes on releasing a key: the store has failed to.
	releaseFailed(err, cause error) (Outcome, error)
	// abandonFailed abandons a key whose lease the store has failed to end.
	abandonFailed(err, cause error) (Outcome, error)
	// leaseLost ends an attempt that can neither be released nor abandoned: the store says that the lease is lost.
	leaseLost() (Outcome, error)
	// heartbeatLost is told that the store has refused a heartbeat, because the lease is lost.
	heartbeatLost()
}

// end returns how the attempt ends.
func (a *Attempt) end() attemptEnd {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.remote {
		return remoteEnd{a}
	}
	return localEnd{a}
}

// localEnd is the end of an attempt that this process completes: what the work returns decides.
type localEnd struct{ *Attempt }

// complete saves the result. If the store fails, saving goes on in the background, and the caller waits for it as long
// as the policy says. After that it gets the result all the same, because the work is done.
func (a localEnd) complete(r Result, cause error) (Outcome, error) {
	if cause == nil && !r.Failed {
		a.reportUnused()
	}
	out := Outcome{Result: r, Attempt: a.number, ReplayLeft: a.guard.policy.RetentionOf(r).Replay}
	if !a.Protected() {
		out.Unprotected, out.ReplayLeft = true, 0
		return out, failureOf(r, cause)
	}
	err := a.call(func(ctx context.Context) error { return a.save(ctx, &r) })
	switch {
	case errors.Is(err, ErrLeaseLost):
		return a.lost()
	case err != nil:
		end := a.guard.unsaved.add(a.Attempt, &r)
		kept := *end.result // save may make it smaller
		a.later(end, err, func(ctx context.Context) error {
			err := a.save(ctx, &kept)
			if errors.Is(err, ErrLeaseLost) {
				a.undoDoubted()
			}
			return err
		})
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
	out := Outcome{Result: r, Stored: true, Attempt: a.number, ReplayLeft: a.guard.policy.RetentionOf(r).Replay}
	return out, failureOf(r, nil)
}

// release gives the key up: the work said that nothing happened.
func (a *Attempt) release(cause error) (Outcome, error) {
	out := Outcome{Attempt: a.number, Unprotected: !a.Protected()}
	if out.Unprotected {
		return out, &workError{cause}
	}
	switch err := a.call(a.giveBack); {
	case errors.Is(err, ErrLeaseLost):
		return a.end().leaseLost()
	case err != nil:
		return a.end().releaseFailed(err, cause)
	}
	a.finish()
	a.report(WorkReleased, cause)
	a.undoDoubted()
	return out, &workError{cause}
}

func (a *Attempt) giveBack(ctx context.Context) error { return a.guard.store.Release(ctx, a.lease) }

func (a localEnd) releaseFailed(err, cause error) (Outcome, error) {
	end := a.guard.unsaved.add(a.Attempt, nil)
	a.later(end, err, a.giveBack)
	a.undoDoubted()
	if _, err := end.hold(); err != nil {
		return a.refusal(err)
	}
	return Outcome{Attempt: a.number}, &workError{cause}
}

// abandon ends the lease at once, so that the next request need not wait for it to run out. If the lease was lost, the
// key is not abandoned: another attempt has it, or it has an answer, which a retry gets.
func (a *Attempt) abandon(cause error) (Outcome, error) {
	if a.Protected() {
		switch err := a.giveUp(); {
		case errors.Is(err, ErrLeaseLost):
			return a.end().leaseLost()
		case err != nil:
			return a.end().abandonFailed(err, cause)
		}
	}
	return a.abandoned(cause)
}

func (a *Attempt) abandoned(cause error) (Outcome, error) {
	a.report(WorkUnknown, cause)
	out := Outcome{Attempt: a.number, Unprotected: !a.Protected()}
	return out, fmt.Errorf("%w: %w", ErrAbandoned, &workError{cause})
}

// abandonFailed leaves the lease to run out by itself.
func (a localEnd) abandonFailed(_, cause error) (Outcome, error) { return a.abandoned(cause) }

func (a localEnd) leaseLost() (Outcome, error) { return a.lost() }

// heartbeatLost ends the work's context, unless a transaction of the work may have completed the attempt.
func (a localEnd) heartbeatLost() {
	if a.openTx() != nil {
		a.loseUnlessCompleted()
		return
	}
	a.lose()
}

// lost returns the error of an attempt that was taken over: the store has refused its end.
func (a *Attempt) lost() (Outcome, error) {
	a.finish()
	a.reportTaken()
	a.undoDoubted()
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
		return a.guard.store.Complete(ctx, a.lease, r, a.guard.policy.RetentionOf(r))
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

// Failure returns the error that [Guard.Do] returns for r: that of work which failed with an error, or of a key that
// was resolved as failed without an answer. It is nil for all other results, also for those with which an adapter
// recorded a failure of its protocol, such as 404.
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
