package retrysafe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/elapsed"
	"github.com/retrysafe/retrysafe/internal/lazyctx"
	"github.com/retrysafe/retrysafe/internal/timerqueue"
)

// Guard makes operations safe to retry: for one key the work runs at most once, and every retry gets the same answer.
// It holds the rules; its Store holds the records. A Guard is safe for concurrent use.
type Guard struct {
	*engine
	observers  observers
	policy     Policy
	given      Policy            // policy without the defaults of its Retention, for With
	firstBeats *timerqueue.Queue // of attempts whose work has just begun
	timeouts   *timerqueue.Queue // of attempts whose context is waited for
}

// Options of a Guard.
type Options struct {
	// Policy for all operations; With makes exceptions.
	Policy Policy
	// Observer is told what happens. Default: none.
	Observer Observer
	// StoreTimeout bounds each call to the store. If Policy.Lease is shorter, it is the bound: an answer after the end
	// of the lease comes too late. Default 5 s.
	StoreTimeout time.Duration
	// SweepEvery is how often requests start a sweep in the background, if the store is a Sweeper. Default 1 min;
	// negative: never, for programs in which something else sweeps.
	SweepEvery time.Duration
	// MaxUnsaved bounds the memory that results take while the store fails to save them, in bytes. Results beyond it are
	// saved without their answer (Result.Omitted): a retry is told how the work ended. Default 64 MiB.
	MaxUnsaved int
	// ChildSecret, of at least 16 bytes, hides the parent's key from readers of its child keys: see [Guard.ChildKey]. It
	// must be the same in all processes, and must stay the same for as long as an operation may be resumed: under another
	// secret, an attempt repeats the calls of the one before it with other keys. Default: none.
	ChildSecret []byte
}

// shortestChildSecret is the length of Options.ChildSecret, in bytes, below which the secret itself could be guessed.
const shortestChildSecret = 16

// Request names an operation by its key, and identifies what the caller asks for by a fingerprint.
type Request struct {
	// Key of the operation. It must be valid: see Key.Validate.
	Key Key
	// Fingerprint of the request. If it differs from the one that first used the key, the request is refused with
	// ErrMismatch. Empty: it matches any.
	Fingerprint Fingerprint
	// WaitAtMost shortens the wait of a Wait policy for this request. 0: as the policy says.
	WaitAtMost time.Duration
	// WaitContext ends the wait of a Wait policy for this request when it ends. Adapters set it, and give Do a context
	// that does not end, where a caller that seems to have left may still read its answer: such a caller does not wait,
	// and its work runs. nil: the context given to Do.
	WaitContext context.Context
	// Tags by which people find the key. They are kept if this is the first request with the key, and the store keeps
	// tags, as every [Finder] does. They do not count for the comparison of requests. Optional.
	Tags Tags
}

func (r Request) waitContext(ctx context.Context) context.Context {
	if r.WaitContext != nil {
		return r.WaitContext
	}
	return ctx
}

// Work is an operation. What it returns says how it ended:
//
//   - a Result and nil: saved and replayed (as a failure, if [Result.Failed] is set)
//   - Terminal(err): it failed for good; saved as a failure, and replayed as the same *Failure
//   - Retryable(err): nothing happened; the key is released
//   - Unknown(err): it is not known what happened; the key is abandoned
//   - an error without a mark: the same as [Unknown] if the context has ended before, for example after
//     [Policy.Timeout]. Otherwise [Policy.OnAbandoned] decides: it is [Terminal] under [Refuse], Unknown under [Rerun]
//     and [Reconcile], and Retryable under [RerunTx].
//
// After a panic or runtime.Goexit it is unknown what happened, as after a crash: the key is abandoned, as with Unknown,
// and the panic continues. If the work had completed the attempt in a transaction of its own before, that result stays.
//
// The context is the attempt itself. It outlives the caller's context: it ends after Policy.Timeout, and with the cause
// [ErrLeaseLost] when another attempt has taken the key over.
type Work func(ctx context.Context, a *Attempt) (Result, error)

// Outcome is what [Guard.Do] returns about the result.
type Outcome struct {
	// Result of the work. It belongs to the caller of Do.
	Result Result
	// Replayed says that the result comes from the record; the work did not run.
	Replayed bool
	// Stored says that the result is saved. It is false if saving failed and goes on in the background, or if the work
	// ran unprotected.
	Stored bool
	// Unprotected says that the store failed, and the work ran all the same, as FailOpen says.
	Unprotected bool
	// CompletedElsewhere says that another process completed this attempt, so that Result is what it has saved, and not
	// what the work returned. See AttemptControl.CompletedElsewhere.
	CompletedElsewhere bool
	// Attempt is the number of the attempt that ran or whose result this is.
	Attempt int
	// Age since the key's first claim, for a replay.
	Age time.Duration
	// ReplayLeft is how long from now a retry gets this result.
	ReplayLeft time.Duration
	// Fingerprint of the request that first used the key, for a replay. If it differs from that of the Request, the two
	// were made by different algorithms and could not be compared: see Fingerprint.Matches.
	Fingerprint Fingerprint
}

// New returns a Guard that keeps its records in s. Close s after Shutdown. New panics if the policy is not valid, see
// [Policy.Validate], if StoreTimeout is so short that its unit must be missing, or if ChildSecret is not nil and
// shorter than 16 bytes, because these are mistakes in the program.
func New(s Store, o Options) *Guard {
	if o.StoreTimeout > 0 && o.StoreTimeout < time.Millisecond {
		panic(fmt.Sprintf("retrysafe: Options.StoreTimeout is %v; it must be at least 1ms (is the unit missing, as in "+
			"5*time.Second?)", o.StoreTimeout))
	}
	if o.ChildSecret != nil && len(o.ChildSecret) < shortestChildSecret {
		panic(fmt.Sprintf("retrysafe: Options.ChildSecret has %d bytes; it must have at least %d, or be nil (is an environment "+
			"variable missing?)", len(o.ChildSecret), shortestChildSecret))
	}
	e := newEngine(s, o)
	return newGuard(e, e.observers, o.Policy.or(defaultPolicy()))
}

// With returns a Guard for operations with a policy of their own: fields of p that are set replace those of g. Both
// share everything else, Shutdown included. It panics if p is not valid.
func (g *Guard) With(p Policy) *Guard {
	return newGuard(g.engine, g.observers, p.or(g.given))
}

func newGuard(e *engine, told observers, p Policy) *Guard {
	if err := p.Validate(); err != nil {
		panic(err.Error())
	}
	return &Guard{
		engine: e, observers: told, policy: p.ready(), given: p, firstBeats: timerqueue.New(), timeouts: timerqueue.New(),
	}
}

// Policy returns the policy in force, defaults filled in.
func (g *Guard) Policy() Policy { return g.policy }

// Store returns the store that New was given.
func (g *Guard) Store() Store { return g.store }

// ChildKey derives the key ID for a downstream call of the operation that k names: the one that [Attempt.ChildKey]
// gives in each attempt at it. Without [Options.ChildSecret] it is [Key.Child]. With one, it is HMAC-SHA-256 with the
// secret over the text of [Key.Child], its first 32 hex digits.
func (g *Guard) ChildKey(k Key, name string) string { return k.childWith(g.childSecret, name) }

// Do runs work at most once for r.Key, and answers every other request with the same key from the record.
//
// Errors:
//
//   - [ErrInvalidKey] and [ErrShutdown]; nothing was run
//   - *Refusal, which wraps [ErrMismatch], [ErrInFlight], [ErrWaitTimeout], [ErrAbandoned], [ErrNotReplayable] or
//     [ErrLeaseLost], if the key has another attempt, or its answer is unknown or not kept
//   - *Failure, if the work failed for good, for this request or before
//   - [ErrStoreFailed] or [ErrStoreFull], with the store's error, or with that of ctx if it had ended; nothing was run
//   - the error of ctx, if it ended while Do waited for another attempt
//   - the work's own error, if the work marked it Retryable, and with ErrAbandoned if it left the outcome unknown.
//     errors.Is and errors.As find what is inside, but neither the mark nor errors of other Guards that the work has
//     called, because both apply to their own attempt.
//
// Explain says what an error means for the caller and whether to retry. A result that was omitted is not an error:
// Outcome.Result.Omitted says so.
func (g *Guard) Do(ctx context.Context, r Request, work Work) (Outcome, error) {
	if err := r.Key.Validate(); err != nil {
		return Outcome{}, err
	}
	if !g.enter() {
		return Outcome{}, ErrShutdown
	}
	defer g.leave()
	return g.decide(ctx, r, work)
}

// Do is [Guard.Do] for work that returns a value. The value is saved as JSON, and what Do returns has been through it,
// so that the first caller and every retry get the same.
//
// Errors are those of Guard.Do, an error before anything runs if T is a struct without exported fields, of which JSON
// would keep nothing, or an interface, which JSON would bring back as another type, and [ErrNotReplayable] if the work
// has run but its value was not kept: it was larger than [Policy.MaxResult], or cannot be encoded. The caller for whom
// the work ran gets the value itself then.
func Do[T any](
	ctx context.Context, g *Guard, r Request, work func(ctx context.Context, a *Attempt) (T, error),
) (T, error) {
	var fresh T
	if err := keepsContent[T](); err != nil {
		return fresh, fmt.Errorf("retrysafe: the result of key %s: %w", r.Key, err)
	}
	out, err := g.Do(ctx, r, func(ctx context.Context, a *Attempt) (Result, error) {
		var err error
		if fresh, err = work(ctx, a); err != nil {
			return Result{}, err
		}
		body, err := json.Marshal(fresh)
		if err != nil { // the work is done all the same
			return Result{Omitted: true}, nil
		}
		return Result{Body: body}, nil
	})
	var value T
	switch {
	case err != nil:
		return value, err
	case out.Result.Omitted && out.Replayed:
		return value, fmt.Errorf("key %s: %w", r.Key, ErrNotReplayable)
	case out.Result.Omitted:
		return fresh, nil
	}
	if err := json.Unmarshal(out.Result.Body, &value); err != nil {
		return value, fmt.Errorf("retrysafe: decode the result of key %s: %w", r.Key, err)
	}
	return value, nil
}

// maxRounds bounds how often one request claims again because another attempt got the key meanwhile.
const maxRounds = 16

// decide claims the key and acts on the verdict. If the request does not get the key, a claim of it that may still reach
// the store is undone: the attempt that has the key may have released it by then, and the claim would take it for
// nobody.
func (g *Guard) decide(ctx context.Context, r Request, work Work) (Outcome, error) {
	q := g.claimRequest(r)
	out, err := g.decideBy(ctx, r, &q, work)
	if q.doubted {
		g.undoClaim(q.ClaimParams)
	}
	return out, err
}

// decideBy claims the key, and acts on the verdict until it is final. A take-over takes two claims: the first finds the
// abandoned record, and only the second has TakeOver set, so that every policy sees the record before it acts.
func (g *Guard) decideBy(ctx context.Context, r Request, q *claimRequest, work Work) (Outcome, error) {
	var abandoned Record
	c, err := g.claim(ctx, q)
	for range maxRounds {
		switch end := unsavedEndOf(err); {
		case end != nil:
			if out, err, answered := g.whileUnsaved(ctx, r, q, end); answered {
				return out, err
			}
			c, err = g.claim(ctx, q)
		case err != nil && !q.isKnown:
			return g.withoutClaim(ctx, r, work, err)
		case err != nil: // the key is known to be taken: nothing may run beside the attempt that has it
			return Outcome{}, err
		case c.Verdict == Acquired:
			return g.run(ctx, q, c, g.reconciling(abandoned, work))
		case !g.matches(ctx, r, c.Record):
			return g.refuse(ctx, MismatchRefused, ErrMismatch, c.Record)
		case c.Verdict == Done:
			return g.replay(ctx, c.Record)
		case c.Verdict == Abandoned && g.policy.OnAbandoned.kind == abandonedRefuse:
			return g.refuse(ctx, AbandonedRefused, ErrAbandoned, c.Record)
		case c.Verdict == Abandoned:
			abandoned = c.Record.WithoutTrail()
			q.TakeOver, q.Fingerprint = true, c.Record.Fingerprint
			c, err = g.claim(ctx, q)
		case c.Record.State == Released: // under a fingerprint that matches ours but was made differently
			q.Fingerprint = c.Record.Fingerprint
			c, err = g.claim(ctx, q)
		default:
			if !q.doubted { // otherwise undoing the claim needs TakeOver
				abandoned, q.TakeOver = Record{}, false // another one was faster: the policy sees what becomes of that
			}
			c, err = g.whileInFlight(ctx, r, q, c)
		}
	}
	return g.refuse(ctx, InFlightRefused, ErrInFlight, c.Record)
}

// claimRequest holds the arguments with which one request claims, each time as the same owner.
type claimRequest struct {
	ClaimParams
	began     time.Time // of the first claim
	asked     time.Time // when the last claim was sent; a lease that it acquired began no earlier
	doubted   bool      // an answer was lost, so that the store may still receive that claim later
	hasWaited bool      // for another attempt, and that was counted
	isKnown   bool      // the store, or this process, has said that the key is taken
}

func (g *Guard) claimRequest(r Request) claimRequest {
	return claimRequest{ClaimParams: ClaimParams{
		Key:         r.Key,
		Fingerprint: r.Fingerprint,
		Owner:       NewOwner(),
		Lease:       g.policy.Lease,
		Keep:        g.policy.Retention,
		Async:       g.policy.AsyncClaim,
		Tags:        r.Tags,
	}}
}

// claim claims the key, a second time if the first fails: the claim may have been made and only its answer lost.
// Claiming again as the same owner then returns the same lease. If both fail, the claim is undone in the background.
func (g *Guard) claim(ctx context.Context, q *claimRequest) (Claim, error) {
	if err := ctx.Err(); err != nil {
		return Claim{}, fmt.Errorf("claim key %s: %w: %w", q.Key, ErrStoreFailed, &callerLeft{err})
	}
	if q.began.IsZero() {
		q.began = time.Now()
	}
	if err := g.unsaved.check(q.Key); err != nil {
		q.isKnown = true
		return Claim{}, err
	}
	c, err := g.claimOnce(ctx, q)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrStoreFull) {
		c, err = g.claimOnce(ctx, q)
	}
	switch {
	case err == nil:
		q.isKnown = true
		q.doubted = q.doubted && c.Verdict != Done // a late claim does nothing to a key that has ended
		if c.Verdict == Abandoned {
			// Perhaps by an attempt that has ended meanwhile.
			err = g.unsaved.check(q.Key)
		}
		return c, err
	case errors.Is(err, ErrNotReplayable): // also under FailOpen nothing runs for a key that has a record
		q.isKnown = true
		_, err = g.refuse(ctx, NotReplayableRefused, ErrNotReplayable, Record{Key: q.Key})
		return Claim{}, err
	case errors.Is(err, ErrUnreadable): // likewise, but another version of the program may read it
		q.isKnown = true
		g.observe(ctx, Event{Kind: StoreFailed, Key: q.Key, Err: err})
		return Claim{}, fmt.Errorf("claim key %s: %w: %w", q.Key, ErrStoreFailed, err)
	case errors.Is(err, ErrStoreFull):
		return Claim{}, fmt.Errorf("claim key %s: %w", q.Key, err)
	case ctx.Err() != nil: // which says nothing about the store
		err = &callerLeft{err}
	default:
		g.observe(ctx, Event{Kind: StoreFailed, Key: q.Key, Err: err})
	}
	g.undoClaim(q.ClaimParams)
	q.doubted = false
	return Claim{}, fmt.Errorf("claim key %s: %w: %w", q.Key, ErrStoreFailed, err)
}

// claimOnce claims once. An answer that comes so late that the first heartbeat is due counts as lost: the process may
// have been paused, and another attempt may have taken the key over. Claiming again as the same owner shows whether
// that happened, and renews the lease.
func (g *Guard) claimOnce(ctx context.Context, q *claimRequest) (Claim, error) {
	q.asked = time.Now()
	call := g.callContextFrom(ctx, q.asked)
	defer call.End(nil)
	c, err := g.store.Claim(call, q.ClaimParams)
	g.heard(err)
	q.doubted = q.doubted || c.Doubted || err != nil && !isRefusedClaim(err)
	if err == nil && c.Verdict == Acquired {
		if took := elapsed.Since(q.asked); took > g.beatEvery() {
			err = fmt.Errorf("the answer to a claim took %v, too long for a lease of %v", took, q.Lease)
		}
	}
	return c, err
}

// isRefusedClaim reports whether the store has answered a claim with an error: then the claim has taken no key.
func isRefusedClaim(err error) bool {
	return errors.Is(err, ErrStoreFull) || errors.Is(err, ErrNotReplayable) || errors.Is(err, ErrUnreadable)
}

// callContext bounds one call to the store.
func (g *Guard) callContext(ctx context.Context) *lazyctx.Context {
	return g.callContextFrom(ctx, time.Now())
}

// callContextFrom bounds one call to the store that begins at the given time.
func (g *Guard) callContextFrom(ctx context.Context, began time.Time) *lazyctx.Context {
	return lazyctx.WithDeadline(ctx, began.Add(min(g.storeTimeout, g.policy.Lease)))
}

func (g *Guard) matches(ctx context.Context, r Request, known Record) bool {
	if !r.Fingerprint.Comparable(known.Fingerprint) && r.Fingerprint != "" {
		g.observe(ctx, Event{Kind: FingerprintIncomparable, Key: r.Key})
	}
	return r.Fingerprint.Matches(known.Fingerprint)
}

// withoutClaim answers a request whose claim has failed, as OnStoreError says.
func (g *Guard) withoutClaim(ctx context.Context, r Request, work Work, err error) (Outcome, error) {
	if g.policy.OnStoreError != FailOpen || ctx.Err() != nil {
		return Outcome{}, err
	}
	g.observe(ctx, Event{Kind: RanUnprotected, Key: r.Key, Err: err})
	a := g.newAttempt(ctx, Claim{Lease: Lease{Key: r.Key}, Record: Record{Attempt: 1}})
	return a.do(work)
}

// run runs work under the lease just claimed.
func (g *Guard) run(ctx context.Context, q *claimRequest, c Claim, work Work) (Outcome, error) {
	a := g.newAttempt(ctx, c)
	a.fingerprint, a.takeOver, a.doubted = q.Fingerprint, q.TakeOver, q.doubted
	q.doubted = false // the attempt sees to it
	kind := AttemptStarted
	if a.number > 1 {
		kind = AttemptResumed
	}
	g.observe(ctx, Event{Kind: kind, Key: a.lease.Key, Fence: a.lease.Fence, Attempt: a.number})
	a.startHeartbeat(q.asked)
	return a.do(work)
}

// reconciling returns work that calls the ReconcileFunc first, if the policy has one and the attempt took over an
// abandoned key.
func (g *Guard) reconciling(abandoned Record, work Work) Work {
	ask := g.policy.OnAbandoned.reconcile
	if ask == nil || abandoned.State == 0 {
		return work
	}
	return func(ctx context.Context, a *Attempt) (Result, error) {
		r, err := ask(ctx, a, abandoned)
		switch {
		case err != nil:
			return Result{}, Unknown(fmt.Errorf("reconcile: %w", err))
		case r != nil:
			a.inherited = nil // the work does not run, so that it cannot ask for the steps
			return *r, nil
		}
		return work(ctx, a)
	}
}

// replay answers with the result of an attempt that has ended.
func (g *Guard) replay(ctx context.Context, known Record) (Outcome, error) {
	if known.Result.isResolvedFailure() { // its code is all there is, and is kept as long as the key
		known.ReplayLeft = known.KeyLeft
	}
	if known.ReplayLeft <= 0 {
		return g.refuse(ctx, NotReplayableRefused, ErrNotReplayable, known)
	}
	kind := AnswerReplayed
	if known.Result.Omitted {
		kind = AnswerOmitted
	}
	g.observe(ctx, Event{Kind: kind, Key: known.Key, Fence: known.Fence, Attempt: known.Attempt})
	g.seen(SeenReplayed, known, known.Result.Code)
	out := Outcome{
		Result:      known.Result,
		Replayed:    true,
		Stored:      true,
		Attempt:     known.Attempt,
		Age:         known.Age,
		ReplayLeft:  known.ReplayLeft,
		Fingerprint: known.Fingerprint,
	}
	if f := known.Result.Failure(); f != nil {
		return out, f
	}
	return out, nil
}

func (g *Guard) refuse(ctx context.Context, kind EventKind, reason error, known Record) (Outcome, error) {
	g.observe(ctx, Event{Kind: kind, Key: known.Key, Fence: known.Fence, Attempt: known.Attempt})
	g.seen(sightingOf(kind), known, 0)
	return Outcome{}, &Refusal{Reason: reason, Record: known.WithoutTrail()}
}
