package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Reopening is a person's decision that an operation which has ended may run again. See [Guard.Reopen].
type Reopening struct {
	// Reason says why. Required; up to MaxReasonBytes of UTF-8. It is kept in the trail.
	Reason string
	// By names the person or program that decides; up to MaxByBytes of UTF-8. It is kept in the trail.
	By string
	// Fence is that of the claim whose answer was found wrong, as a listing has shown it: a key that was claimed again
	// stays as it is. 0: that of the last claim.
	Fence int64
	// DryRun checks everything and changes nothing.
	DryRun bool
}

// Reopener is implemented by stores in which an operation that has ended can be made to run again.
type Reopener interface {
	// Reopen turns the record that takes part in claims, if its last claim has that fence and has ended, into one that
	// was released just now, after the steps whose names begin with AuditStepPrefix and the step s. The result and all
	// other steps are dropped. Fingerprint, Fence, FirstFence and Attempt stay; the retention is the one it had, and
	// counts anew. Older records stay as they are. Reopen wakes waiters as Release does.
	//
	// From then on the key is as after a release with steps: only the same request gets it, under a larger fence, and a
	// write under the lease that has completed it returns ErrLeaseLost, that of a repeated Complete too.
	//
	// If the record has a step of that name, an earlier call has reopened it: then Reopen changes nothing and returns nil,
	// whatever has become of the key since. It returns ErrKeyUnknown if no record takes part in claims, and ErrNotEnded
	// if the record has not ended or its last claim has another fence; then nothing is changed.
	Reopen(ctx context.Context, d Digest, fence int64, s StepResult) error
}

// Reopen makes an operation that has ended run again: the answer of the key is dropped, and the next retry of the same
// request runs the whole operation, from its beginning. What the earlier attempt did is not undone, and happens a
// second time. So the answer of a key that failed before it had any effect can be corrected, or one that was wrong.
//
// The steps that the work had saved are dropped with the answer: a run that skipped them would not repeat their
// effects. The record stays, with its trail, to which an entry is added, so that a request with another fingerprint is
// refused with [ErrMismatch], and the count of attempts goes on. Its Key window starts anew. Callers that already have
// the first answer are not told. Keys that calls to other services were given (see [Attempt.ChildKey]) are the same as
// before: a service that keeps idempotency keys itself answers those calls as it did the first time.
//
// An attempt that has ended cannot end the key a second time: a late repetition of its writes returns [ErrLeaseLost].
// Reopen returns the record as it is then. Repeated, it returns [ErrNotEnded], or reopens what a retry has ended since.
//
// The Guard's store must be an [Inspector], and it, or the store that its method Unwrap() Store returns, a [Reopener].
// The Guard's observers are told [KeyReopened].
//
// Errors:
//
//   - [ErrInvalidResolution], if a field of r is missing or wrong
//   - [ErrKeyUnknown], if the store has no record of the key, or its Key window has passed: then the next request with
//     the key runs as if it were new
//   - [ErrNotEnded], with the record that was found, if the key is in flight, abandoned or released, if it was claimed
//     again since r.Fence, or if another person was faster; see [Guard.Resolve] for a key that is abandoned
//   - errors.ErrUnsupported, if the store is not an Inspector or not a Reopener
//   - [ErrShutdown]
//   - [ErrStoreFailed], with the store's error. The key has ended as before, unless only the store's answer was lost:
//     inspect the key again.
func (g *Guard) Reopen(ctx context.Context, d Digest, r Reopening) (Record, error) {
	if err := validateAudit(r.Reason, r.By); err != nil {
		return Record{}, err
	}
	if !g.enter() {
		return Record{}, ErrShutdown
	}
	defer g.leave()
	known, err := g.newest(ctx, d)
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("reopen key %s: %w", d, err)
	case !known.State.Ended():
		return known, fmt.Errorf("reopen key %s: %w: it is %s", d, ErrNotEnded, known.State)
	case isLater(known, r.Fence):
		return known, laterClaim("reopen", d, known, ErrNotEnded)
	case known.KeyLeft == 0:
		return known, fmt.Errorf("reopen key %s: %w: it is free, and the next request with it runs as if it were new; what "+
			"is left is kept for support only", d, ErrKeyUnknown)
	}
	reopener, ok := As[Reopener](g.store)
	if !ok {
		return known, fmt.Errorf("reopen key %s: the store %T is not a Reopener: %w", d, g.store, errors.ErrUnsupported)
	}
	if r.DryRun {
		return known, nil
	}
	return g.reopen(context.WithoutCancel(ctx), reopener, known, r) // a few calls, each bounded in time
}

func (g *Guard) reopen(ctx context.Context, reopener Reopener, known Record, r Reopening) (Record, error) {
	entry := newAuditEntry(ResolveReopen, r.Reason, r.By, known)
	d := known.Key.Digest()
	err := g.saveWithRetries(ctx, func(ctx context.Context) error { return reopener.Reopen(ctx, d, known.Fence, entry) })
	switch {
	case errors.Is(err, ErrNotEnded), errors.Is(err, ErrKeyUnknown):
		return known, fmt.Errorf("reopen key %s: it has changed meanwhile: %w", d, err)
	case errors.Is(err, errors.ErrUnsupported):
		return known, fmt.Errorf("reopen key %s: %w", d, err)
	case err != nil:
		return known, fmt.Errorf("reopen key %s: %w: %w", d, ErrStoreFailed, err)
	}
	g.waiting.wake(known.Key)
	g.observe(ctx, Event{Kind: KeyReopened, Key: known.Key, Fence: known.Fence, Attempt: known.Attempt})
	if now, err := g.newest(ctx, d); err == nil {
		return now, nil
	}
	known.State, known.Result = Released, Result{} // it is reopened, although the store did not say so again
	known.Steps = append(slices.DeleteFunc(known.Steps, func(s StepResult) bool { return !s.isAudit() }), entry)
	return known, nil
}
