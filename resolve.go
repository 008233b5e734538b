package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// ResolveAction says what a person has decided about a key. Its text is also that of [AuditEntry.Action].
type ResolveAction string

const (
	// ResolveComplete ends the key with Resolution.Result: the operation happened, and every retry gets this answer.
	ResolveComplete ResolveAction = "complete"
	// ResolveFail ends the key as failed: the operation did not happen, or was undone, and will not run under this key.
	// Every retry gets Resolution.Result, or, if that is the zero Result, a *Failure whose Resolved is set. Adapters
	// word it in their protocol and tell the client to use a new key.
	ResolveFail ResolveAction = "fail"
	// ResolveRelease frees the key for the same request: the operation did not happen, and the next retry runs it,
	// after the steps that were saved. The record stays, with its trail, so that a request with another fingerprint is
	// refused with ErrMismatch, as before.
	ResolveRelease ResolveAction = "release"
	// ResolvePurge is the action of the trail's entries that Guard.Purge writes. Guard.Resolve refuses it.
	ResolvePurge ResolveAction = "purge"
	// ResolveReopen is the action of the trail's entries that Guard.Reopen writes. Guard.Resolve refuses it.
	ResolveReopen ResolveAction = "reopen"
)

// Resolution is what a person has decided about an abandoned key.
type Resolution struct {
	// Action is ResolveComplete, ResolveFail or ResolveRelease.
	Action ResolveAction
	// Result is the answer that every retry gets. Adapters make one: see httpsafe.NewResult. With ResolveFail it may be
	// left out, and Failed is set by Resolve; with ResolveRelease there is none. It is limited by Policy.MaxResult.
	Result Result
	// Reason says how the decision was reached. Required; up to MaxReasonBytes of UTF-8. It is kept in the trail, and
	// clients never see it.
	Reason string
	// By names the person or program that decides; up to MaxByBytes of UTF-8. It is kept in the trail.
	By string
	// Retention of the record from now on. A window that is not set is that of the Guard's policy, and none is shorter
	// than what the record had left.
	Retention Retention
	// EndLease reports whether an attempt that is still working may be ended before its lease is over, so that
	// ResolveRelease frees its key at once. nil: none may. It must return true only for a record whose work another
	// process does in a transaction that completes the key under the lease: after the release that transaction cannot
	// commit. What the work does outside of that transaction is not undone, and the next attempt may do it again.
	EndLease func(Record) bool
	// Fence is that of the claim that the decision is about, as a listing has shown it: a key that was claimed again stays
	// as it is. 0: that of the last claim.
	Fence int64
	// DryRun checks everything and changes nothing.
	DryRun bool
}

// Limits of what a person writes into the trail, in bytes.
const (
	MaxReasonBytes = 1000
	MaxByBytes     = 200
)

// Errors of [Guard.Resolve], [Guard.Purge] and [Guard.Reopen].
var (
	// ErrKeyUnknown is returned if the store has no record of the key: it was never used, or its retention has passed.
	ErrKeyUnknown = errors.New("retrysafe: no record of this key")
	// ErrNotAbandoned is returned by Resolve if there is nothing to decide: an attempt works on the key, or it has
	// ended or was released.
	ErrNotAbandoned = errors.New("retrysafe: the key is not abandoned")
	// ErrNotEnded is returned by Purge and Reopen if the key has no answer yet, or none any more.
	ErrNotEnded = errors.New("retrysafe: the key has not ended")
	// ErrInvalidResolution is returned for a Resolution, a Purge or a Reopening that cannot be carried out as it is
	// written.
	ErrInvalidResolution = errors.New("retrysafe: invalid resolution")
)

// Resolve ends an abandoned key as a person has decided, and returns its record as it is then. The person's claim takes
// the key over as any attempt's would, under a fence of its own: the abandoned attempt, if its process is still alive,
// cannot change the key any more. The decision is saved in the record first (see [Record.Trail]), and then carried out.
//
// The Guard's store must be an [Inspector]. The Guard may be another one than that of the requests, in another process;
// its observer is told [KeyResolved]. Resolve can be repeated: once it has been carried out, it returns
// [ErrNotAbandoned].
//
// Errors:
//
//   - [ErrInvalidResolution], if a field of r is missing or wrong, or if the store takes no Result of that size
//   - [ErrKeyUnknown], if the store has no record of the key
//   - ErrNotAbandoned, with the record that was found, if an attempt's lease runs and may not be ended (see
//     [Resolution.EndLease]), if the key has ended, was released or was claimed again since r.Fence, or if another attempt
//     or person was faster
//   - errors.ErrUnsupported, if the store is not an Inspector
//   - [ErrShutdown]
//   - [ErrStoreFailed], with the store's error. The key is abandoned as before, unless only the store's answer was
//     lost: inspect the key again.
func (g *Guard) Resolve(ctx context.Context, d Digest, r Resolution) (Record, error) {
	if err := r.validate(g.policy.MaxResult); err != nil {
		return Record{}, err
	}
	if !g.enter() {
		return Record{}, ErrShutdown
	}
	defer g.leave()
	known, err := g.newest(ctx, d)
	if err != nil {
		return Record{}, fmt.Errorf("resolve key %s: %w", d, err)
	}
	ender, ends := As[LeaseEnder](g.store)
	inFlight := known.State == Pending && known.LeaseLeft > 0
	ends = ends && inFlight && r.Action == ResolveRelease && r.EndLease != nil && r.EndLease(known)
	switch {
	case known.State != Pending || inFlight && !ends:
		return known, notAbandoned(known)
	case isLater(known, r.Fence):
		return known, laterClaim("resolve", d, known, ErrNotAbandoned)
	case r.DryRun:
		return known, nil
	case ends:
		if err := g.endLease(ctx, ender, known); err != nil {
			return known, err
		}
	}
	return g.resolve(ctx, known, r)
}

// LeaseEnder is implemented by stores whose keys another process can complete in a transaction of its own.
type LeaseEnder interface {
	// EndLease has the lease of the key's claim with that fence run out now, as Extend with 0 by its owner does. It
	// wakes no waiter.
	//
	// It returns ErrLeaseLost if the claim does not have the key any more, and ErrNotAbandoned if a transaction holds
	// the record, such as one that has completed the key and has not ended.
	EndLease(ctx context.Context, d Digest, fence int64) error
}

// endLease ends the lease of the attempt that works on a key. A heartbeat of the attempt may renew it until the key is
// taken over: then the key is in flight as before.
func (g *Guard) endLease(ctx context.Context, e LeaseEnder, known Record) error {
	err := g.saveWithRetries(context.WithoutCancel(ctx), func(ctx context.Context) error {
		return e.EndLease(ctx, known.Key.Digest(), known.Fence)
	})
	switch {
	case err == nil, errors.Is(err, ErrLeaseLost): // resolve sees what has become of the key
		return nil
	case errors.Is(err, errors.ErrUnsupported):
		return notAbandoned(known)
	case errors.Is(err, ErrNotAbandoned):
		return err
	}
	return fmt.Errorf("resolve key %s: %w: %w", known.Key, ErrStoreFailed, err)
}

func (r Resolution) validate(maxResult int) error {
	result := len(r.Result.Meta) + len(r.Result.Body)
	switch {
	case r.Action != ResolveComplete && r.Action != ResolveFail && r.Action != ResolveRelease:
		return fmt.Errorf("%w: Action is %q; it must be %q, %q or %q",
			ErrInvalidResolution, r.Action, ResolveComplete, ResolveFail, ResolveRelease)
	case r.Action == ResolveRelease && !r.Result.isZero():
		return fmt.Errorf("%w: a released key has no Result", ErrInvalidResolution)
	case result > maxResult:
		return fmt.Errorf("%w: Result has %d bytes, the limit is %d (Policy.MaxResult)",
			ErrInvalidResolution, result, maxResult)
	}
	return validateAudit(r.Reason, r.By)
}

func validateAudit(reason, by string) error {
	switch {
	case reason == "":
		return fmt.Errorf("%w: Reason is empty; write how the decision was reached", ErrInvalidResolution)
	case len(reason) > MaxReasonBytes:
		return fmt.Errorf("%w: Reason has %d bytes, the limit is %d", ErrInvalidResolution, len(reason), MaxReasonBytes)
	case len(by) > MaxByBytes:
		return fmt.Errorf("%w: By has %d bytes, the limit is %d", ErrInvalidResolution, len(by), MaxByBytes)
	case !utf8.ValidString(reason) || !utf8.ValidString(by):
		return fmt.Errorf("%w: Reason and By must be UTF-8", ErrInvalidResolution)
	}
	return nil
}

func (r Result) isZero() bool {
	return !r.Failed && r.Code == 0 && len(r.Meta) == 0 && len(r.Body) == 0 && !r.Omitted
}

// newest returns the newest record of a key.
func (g *Guard) newest(ctx context.Context, d Digest) (Record, error) {
	inspector, ok := g.store.(Inspector)
	if !ok {
		return Record{}, fmt.Errorf("the store %T does not implement Inspector, so its keys cannot be read: %w",
			g.store, errors.ErrUnsupported)
	}
	call := g.callContext(ctx)
	defer call.End(nil)
	found, err := inspector.Inspect(call, d)
	switch {
	case errors.Is(err, ErrUnreadable) && len(found) > 0: // how the key stands is known, and what cannot be read is left out
	case err != nil:
		return Record{}, fmt.Errorf("%w: %w", ErrStoreFailed, err)
	case len(found) == 0:
		return Record{}, ErrKeyUnknown
	}
	return found[0], nil
}

func notAbandoned(known Record) error {
	why := fmt.Sprintf("it is %s", known.State)
	if known.State == Pending {
		why = fmt.Sprintf("attempt %d is working on it, and its lease runs for another %v",
			known.Attempt, known.LeaseLeft.Round(time.Millisecond))
	}
	return fmt.Errorf("key %s: %w: %s", known.Key, ErrNotAbandoned, why)
}

// resolve takes the key over and carries the decision out.
func (g *Guard) resolve(ctx context.Context, known Record, r Resolution) (Record, error) {
	keep := r.Retention.or(g.policy.Retention).WithDefaults().atLeast(known)
	q := g.claimRequest(Request{Key: known.Key, Fingerprint: known.Fingerprint})
	q.Keep, q.StateOnly = keep, true
	c, err := g.claim(ctx, &q)
	defer func() {
		if q.doubted { // a claim that arrives late would take a key that was released
			g.undoClaim(q.ClaimParams)
		}
	}()
	if err == nil && c.Verdict == Acquired { // the late attempt has released the key: there is nothing to decide
		g.putBack(ctx, q.ClaimParams, c)
		known.State = Released
		return known, notAbandoned(known)
	}
	if err == nil && c.Verdict == Abandoned {
		q.TakeOver = true
		c, err = g.claim(ctx, &q)
	}
	switch {
	case err != nil:
		return known, err
	case c.Verdict != Acquired:
		return c.Record, notAbandoned(c.Record)
	case c.Record.FirstFence != known.FirstFence || c.Record.Attempt != known.Attempt+1:
		g.putBack(ctx, q.ClaimParams, c)
		return known, fmt.Errorf("key %s: %w: it has changed meanwhile; inspect it again", known.Key, ErrNotAbandoned)
	}
	ctx = context.WithoutCancel(ctx) // the rest takes a few calls, each bounded in time
	ended, err := g.carryOut(ctx, c, r, keep)
	switch {
	case errors.Is(err, ErrLeaseLost):
		return known, fmt.Errorf("key %s: %w: another attempt has taken it over meanwhile; inspect it again",
			known.Key, ErrNotAbandoned)
	case err != nil:
		// If this fails too, the lease runs out by itself.
		_ = g.callStore(ctx, func(ctx context.Context) error { return g.store.Extend(ctx, c.Lease, 0) })
		g.waiting.wake(known.Key)
		reason := ErrStoreFailed
		if errors.Is(err, ErrResultTooLarge) {
			reason = ErrInvalidResolution
		}
		return known, fmt.Errorf("resolve key %s: %w: %w", known.Key, reason, err)
	}
	g.waiting.wake(known.Key)
	g.observe(ctx, Event{Kind: KeyResolved, Key: known.Key, Fence: c.Lease.Fence, Attempt: c.Record.Attempt})
	return ended, nil
}

// carryOut saves the entry of the trail, and then completes or releases. The entry comes first, so that no key ends by
// a decision that is not in its trail.
func (g *Guard) carryOut(ctx context.Context, c Claim, r Resolution, keep Retention) (Record, error) {
	ended := c.Record
	ended.LeaseLeft, ended.State = 0, Released
	ended.ReplayLeft, ended.KeyLeft, ended.AuditLeft = keep.Replay, keep.Key, keep.Audit
	if r.Action != ResolveRelease {
		ended.Result = r.Result
		if r.Action == ResolveFail {
			ended.Result = r.failed()
		}
		ended.State = ended.Result.State()
	}
	entry := newAuditEntry(r.Action, r.Reason, r.By, ended)
	err := g.saveWithRetries(ctx, func(ctx context.Context) error { return g.store.Checkpoint(ctx, c.Lease, entry) })
	if err != nil {
		return ended, err
	}
	ended.Steps = append(slices.Clip(ended.Steps), entry)
	answerLost := false
	return ended, g.saveWithRetries(ctx, func(ctx context.Context) error {
		if r.Action != ResolveRelease {
			return g.store.Complete(ctx, c.Lease, ended.Result, keep)
		}
		err := g.store.Release(ctx, c.Lease)
		if answerLost && errors.Is(err, ErrLeaseLost) { // a request has taken the released key
			return nil
		}
		answerLost = err != nil
		return err
	})
}

// failed returns the result of ResolveFail.
func (r Resolution) failed() Result {
	r.Result.Failed = false
	if r.Result.isZero() {
		return Result{Failed: true, Code: resolvedCode}
	}
	r.Result.Failed = true
	return r.Result
}

// atLeast returns r with no window shorter than what the record has left.
func (r Retention) atLeast(known Record) Retention {
	return Retention{
		Replay: max(r.Replay, known.ReplayLeft),
		Key:    max(r.Key, known.KeyLeft),
		Audit:  max(r.Audit, known.AuditLeft),
	}
}

// putBack gives back a key that a claim has taken over although it was not the record to be resolved.
func (g *Guard) putBack(ctx context.Context, p ClaimParams, c Claim) {
	ctx = context.WithoutCancel(ctx)
	err := g.callStore(ctx, func(ctx context.Context) error { return g.restore(ctx, p, c) })
	if err != nil && !errors.Is(err, ErrLeaseLost) {
		g.undoClaim(p)
	}
	g.waiting.wake(p.Key)
}

// isLater reports whether a record is of another claim than the one that a decision is about; fence 0: of any.
func isLater(known Record, fence int64) bool { return fence != 0 && fence != known.Fence }

func laterClaim(verb string, d Digest, known Record, why error) error {
	return fmt.Errorf("%s key %s: %w: it was claimed again, under the fence %d, and that claim was not selected", verb, d,
		why, known.Fence)
}

// Purge is a person's request to drop the answer of a key. See [Guard.Purge].
type Purge struct {
	// Reason says why. Required; up to MaxReasonBytes of UTF-8. It is kept in the trail.
	Reason string
	// By names the person or program that decides; up to MaxByBytes of UTF-8. It is kept in the trail.
	By string
	// Fence is that of the claim whose answer is to be dropped, as a listing has shown it: the answer of a later claim
	// stays. 0: that of the last claim.
	Fence int64
	// DryRun checks everything and changes nothing.
	DryRun bool
}

// Purger is implemented by stores that can drop what was answered of a key before its retention has passed.
type Purger interface {
	// Purge drops Meta, Body and steps of the records that Inspect returns for a key, except steps whose names begin
	// with AuditStepPrefix, ends the Replay window of those records, and adds the step s to the newest, if the last claim
	// of that one has this fence and has ended. It changes nothing else: the key stays taken until its Key window has
	// passed, and claims are told Done without an answer. If a step of that name is already saved, it is not added again.
	//
	// A newest record that has been reopened or claimed since, and has a step of that name, has been purged by an earlier
	// call: then Purge leaves it as it is and returns nil, so that a call which arrives late drops no answer that is newer
	// than the decision. It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the newest has not ended or
	// its last claim has another fence; then nothing is changed.
	Purge(ctx context.Context, d Digest, fence int64, s StepResult) error
}

// Purge drops the answer of a key that has ended: Meta, Body and steps of its records, including records that are kept
// only for Inspect. The key stays taken, and a retry gets [ErrNotReplayable]. The record still says that the work has
// run and how it ended, and its trail has an entry about the purge. Purge returns the record as it is then, and can be
// repeated.
//
// The Guard's store must be an [Inspector], and it, or the store that its method Unwrap() Store returns, a [Purger].
// The Guard's observers are told [KeyPurged].
//
// Errors:
//
//   - [ErrInvalidResolution], if a field of p is missing or wrong
//   - [ErrKeyUnknown], if the store has no record of the key
//   - [ErrNotEnded], with the record that was found, if that has not ended or is of a later claim than p.Fence
//   - errors.ErrUnsupported, if the store is not an Inspector or not a Purger
//   - [ErrShutdown]
//   - [ErrStoreFailed], with the store's error
func (g *Guard) Purge(ctx context.Context, d Digest, p Purge) (Record, error) {
	if err := validateAudit(p.Reason, p.By); err != nil {
		return Record{}, err
	}
	if !g.enter() {
		return Record{}, ErrShutdown
	}
	defer g.leave()
	known, err := g.newest(ctx, d)
	if err != nil {
		return Record{}, fmt.Errorf("purge key %s: %w", d, err)
	}
	switch {
	case !known.State.Ended():
		return known, fmt.Errorf("purge key %s: %w: it is %s", d, ErrNotEnded, known.State)
	case isLater(known, p.Fence):
		return known, laterClaim("purge", d, known, ErrNotEnded)
	}
	purger, ok := As[Purger](g.store)
	if !ok {
		return known, fmt.Errorf("purge key %s: the store %T is not a Purger: %w", d, g.store, errors.ErrUnsupported)
	}
	if p.DryRun {
		return known, nil
	}
	return g.purge(ctx, purger, known, p)
}

func (g *Guard) purge(ctx context.Context, purger Purger, known Record, p Purge) (Record, error) {
	entry := newAuditEntry(ResolvePurge, p.Reason, p.By, known)
	d := known.Key.Digest()
	err := g.saveWithRetries(ctx, func(ctx context.Context) error { return purger.Purge(ctx, d, known.Fence, entry) })
	switch {
	case errors.Is(err, ErrNotEnded), errors.Is(err, ErrKeyUnknown):
		return known, fmt.Errorf("purge key %s: it has changed meanwhile: %w", d, err)
	case err != nil:
		return known, fmt.Errorf("purge key %s: %w: %w", d, ErrStoreFailed, err)
	}
	g.observe(ctx, Event{Kind: KeyPurged, Key: known.Key, Fence: known.Fence, Attempt: known.Attempt})
	return g.newest(ctx, d)
}

// callStore makes one call to the store, bounded in time.
func (g *Guard) callStore(ctx context.Context, f func(context.Context) error) error {
	call := g.callContext(ctx)
	defer call.End(nil)
	return f(call)
}

// saveTries is how often saveWithRetries tries to save: a brief failure of the store should not cost the work of an
// attempt.
const saveTries = 4

// saveWithRetries calls the store up to saveTries times, until it has saved or refused.
func (g *Guard) saveWithRetries(ctx context.Context, save func(context.Context) error) error {
	var err error
	for try := range saveTries {
		if try > 0 && !g.background.sleep(firstPause<<try) {
			break
		}
		if err = g.callStore(ctx, save); err == nil || errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrResultTooLarge) {
			break
		}
	}
	return err
}
