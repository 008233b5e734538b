package retrysafe

import (
	"context"
	"errors"
	"time"
)

// Situation names what became of a request with a key. Adapters translate it into a status of their protocol.
type Situation uint8

const (
	// SituationProcessed means that the work ran for this request, and its result is saved.
	SituationProcessed Situation = iota + 1
	// SituationReplayed means that the work ran before; the request was answered from the record.
	SituationReplayed
	// SituationUnprotected means that the work ran although the store failed (FailOpen); a retry may run it again.
	SituationUnprotected
	// SituationUnsaved means that the work ran, and saving its result failed; saving is retried in the background.
	SituationUnsaved
	// SituationReleased means that the work reported that nothing happened (Retryable); the key is free again.
	SituationReleased
	// SituationFailed means that the work failed for good, for this request or before. Every retry gets the same
	// failure.
	SituationFailed
	// SituationClosed means that the outcome was unknown, and a person has resolved the key as not executed
	// (ResolveFail).
	SituationClosed
	// SituationInFlight means that another attempt works on the key, or has taken it over from this one.
	SituationInFlight
	// SituationOutcomeUnknown means that an attempt started, and whether it completed is unknown.
	SituationOutcomeUnknown
	// SituationMismatch means that the key was first used for a different request.
	SituationMismatch
	// SituationNotReplayable means that the work ran before, and its answer is not kept.
	SituationNotReplayable
	// SituationStoreUnavailable means that the store failed or is full; nothing ran for this request.
	SituationStoreUnavailable
	// SituationShuttingDown means that the Guard was shut down; nothing ran.
	SituationShuttingDown
	// SituationCanceled means that the caller's context ended before there was an answer.
	SituationCanceled

	// SituationKeyMissing means that the operation requires a key, and the request has none.
	SituationKeyMissing
	// SituationKeyMalformed means that the request's key does not have the required form.
	SituationKeyMalformed
	// SituationKeyTooOld means that nothing is recorded under the key, and it is so old that its record may have been
	// deleted.
	SituationKeyTooOld
	// SituationKeyNotFound means that the status of a key was asked for, and nothing is recorded under it.
	SituationKeyNotFound
	// SituationScopeUnresolved means that the adapter could not determine the caller, to whom the key belongs.
	SituationScopeUnresolved
	// SituationQuotaExceeded means that the caller has reached its quota of keys.
	SituationQuotaExceeded
	// SituationNotSupported means that the operation takes no key, and the request has one.
	SituationNotSupported
	// SituationRejected means that the adapter refused the request before its key was claimed, for a reason that only
	// its protocol has.
	SituationRejected
)

// Executed says whether the operation was executed.
type Executed uint8

const (
	// ExecutedNo means that the operation has had no effect. If Retryable is true and the record was not read, as with
	// SituationStoreUnavailable and SituationShuttingDown, it is said of this request: an earlier one may have run.
	ExecutedNo Executed = iota + 1
	// ExecutedYes means that the operation was executed.
	ExecutedYes
	// ExecutedUnknown means that it cannot be told, or not yet.
	ExecutedUnknown
)

// String returns "no", "yes" or "unknown".
func (e Executed) String() string { return name(int(e), "no", "yes", "unknown") }

// Advice says what became of a request, and what its sender can do. Adapters render it in the words of their protocol.
type Advice struct {
	Situation Situation
	// Executed says whether the operation was executed.
	Executed Executed
	// Retryable means that the same request may be sent again with the same key.
	Retryable bool
	// NewKeyRequired means that this key cannot be used for this request.
	NewKeyRequired bool
	// Final means that every retry with this key gets the same answer, for as long as its record is kept.
	Final bool
	// RetryAfter is how long to wait before a retry; 0 if Retryable is false or nothing is known.
	RetryAfter time.Duration
	// Title is a short text for API clients, the same each time the situation occurs.
	Title string
	// Detail tells API clients in whole sentences what happened and what to do next. It holds nothing that a client has
	// sent.
	Detail string
	// Record is the record that decided: that of a Refusal. Of a replayed failure only its Age is set. It is zero if no
	// record was found.
	Record Record
}

// situation is a row of the table of situations.
type situation struct {
	name   string
	advice Advice
}

// situations is the table: what is constant in each situation. RetryAfter of SituationInFlight is estimated each time,
// and SituationOutcomeUnknown is retryable if the policy resumes abandoned keys; Explain fills these in.
var situations = [...]situation{
	SituationProcessed: {"processed", Advice{
		Executed: ExecutedYes, Final: true,
		Title:  "The operation was executed",
		Detail: "The operation was executed, and a retry with the same key gets the same answer.",
	}},
	SituationReplayed: {"replayed", Advice{
		Executed: ExecutedYes, Final: true,
		Title:  "The operation was executed before",
		Detail: "This is the answer of the first execution. The operation did not run again.",
	}},
	SituationUnprotected: {"unprotected", Advice{
		Executed: ExecutedYes,
		Title:    "The operation was executed without protection",
		Detail:   "The operation was executed, but nothing is recorded under its key. A retry executes it again.",
	}},
	SituationUnsaved: {"unsaved", Advice{
		Executed: ExecutedYes, Retryable: true,
		Title:  "The operation was executed, and its answer is not saved yet",
		Detail: "The operation was executed. Retry with the same key to get its answer once it is saved.",
	}},
	SituationReleased: {"released", Advice{
		Executed: ExecutedNo, Retryable: true,
		Title:  "The operation was not executed",
		Detail: "The operation reported that nothing happened. Retry with the same key.",
	}},
	SituationFailed: {"failed", Advice{
		Executed: ExecutedUnknown, Final: true,
		Title: "The operation failed",
		Detail: "The operation failed, and a retry with the same key gets the same failure. " +
			"Check for partial effects before repeating it with a new key.",
	}},
	SituationClosed: {"closed", Advice{
		Executed: ExecutedNo, NewKeyRequired: true, Final: true,
		Title: "The operation was not executed",
		Detail: "The outcome under this key was unknown. An operator found that the operation did not happen or was " +
			"undone, and it will not run under this key. Use a new key to perform it.",
	}},
	SituationInFlight: {"in_flight", Advice{
		Executed: ExecutedUnknown, Retryable: true,
		Title:  "A request is outstanding for this Idempotency-Key",
		Detail: "Another request with this key is being processed. Retry unchanged after the indicated delay.",
	}},
	SituationOutcomeUnknown: {"outcome_unknown", Advice{
		Executed: ExecutedUnknown, Final: true,
		Title: "The outcome of the operation is unknown",
		Detail: "The operation started, but whether it completed is unknown, and a retry does not run it again. " +
			"Check for its effect, or contact support. Use a new key only if the operation has not happened.",
	}},
	SituationMismatch: {"mismatch", Advice{
		Executed: ExecutedNo, NewKeyRequired: true,
		Title:  "Idempotency-Key is already used",
		Detail: "This key was first used for a different request. Use a new key for a new operation.",
	}},
	SituationNotReplayable: {"not_replayable", Advice{
		Executed: ExecutedYes, NewKeyRequired: true,
		Title: "The answer under this Idempotency-Key is not kept",
		Detail: "The operation was executed, but its answer is not kept. " +
			"Look up its result instead of retrying. Use a new key only to perform the operation once more.",
	}},
	SituationStoreUnavailable: {"store_unavailable", Advice{
		Executed: ExecutedNo, Retryable: true, RetryAfter: time.Second,
		Title: "The operation cannot be protected at the moment",
		Detail: "The store of idempotency keys is unavailable, and this request ran nothing. " +
			"An earlier request with this key may have run: retry with the same key, not with a new one.",
	}},
	SituationShuttingDown: {"shutting_down", Advice{
		Executed: ExecutedNo, Retryable: true, RetryAfter: time.Second,
		Title: "The server is shutting down",
		Detail: "The server is shutting down, and this request ran nothing. " +
			"An earlier request with this key may have run: retry with the same key, not with a new one.",
	}},
	SituationCanceled: {"canceled", Advice{
		Executed: ExecutedUnknown, Retryable: true,
		Title:  "The request was canceled before there was an answer",
		Detail: "The request was canceled while its key was being claimed or waited for. Retry with the same key.",
	}},
	SituationKeyMissing: {"key_missing", Advice{
		Executed: ExecutedNo, NewKeyRequired: true,
		Title: "Idempotency-Key is missing",
		Detail: "This operation requires an idempotency key. Send a new key with each new operation, " +
			"and the same one with a retry.",
	}},
	SituationKeyMalformed: {"key_malformed", Advice{
		Executed: ExecutedNo, NewKeyRequired: true,
		Title:  "Idempotency-Key is malformed",
		Detail: "The idempotency key does not have the required form. Send one key in that form.",
	}},
	SituationKeyTooOld: {"key_too_old", Advice{
		Executed: ExecutedUnknown, NewKeyRequired: true,
		Title: "Idempotency-Key is expired",
		Detail: "This key is so old that its record may have been deleted, so nothing was run. " +
			"Find out whether the operation was executed before using a new key.",
	}},
	SituationKeyNotFound: {"key_not_found", Advice{
		Executed: ExecutedUnknown,
		Title:    "Nothing is recorded under this Idempotency-Key",
		Detail:   "This caller has never used the key, or its record has been deleted.",
	}},
	SituationScopeUnresolved: {"scope_unresolved", Advice{
		Executed: ExecutedNo,
		Title:    "The caller could not be determined",
		Detail:   "An idempotency key belongs to one caller. Authenticate, then retry with the same key.",
	}},
	SituationQuotaExceeded: {"quota_exceeded", Advice{
		Executed: ExecutedNo, Retryable: true, RetryAfter: time.Second,
		Title:  "Too many idempotency keys",
		Detail: "This caller has reached its quota of idempotency keys. Retry after the indicated delay.",
	}},
	SituationNotSupported: {"not_supported", Advice{
		Executed: ExecutedNo,
		Title:    "Idempotency-Key is not supported here",
		Detail:   "This operation does not take an idempotency key. Nothing was run.",
	}},
	SituationRejected: {"rejected", Advice{
		Executed: ExecutedNo,
		Title:    "The request was rejected",
		Detail:   "The request was rejected before its operation started. Nothing was run.",
	}},
}

// String returns the situation's name in snake case, fit for a metric's label.
func (s Situation) String() string {
	if s == 0 || int(s) >= len(situations) {
		return "unknown"
	}
	return situations[s].name
}

// Advice returns what holds each time the situation occurs. Adapters use it for refusals that they decide themselves,
// and for documentation; [Guard.Explain] adds what depends on the policy and the record.
func (s Situation) Advice() Advice {
	if s == 0 || int(s) >= len(situations) {
		s = SituationRejected
	}
	a := situations[s].advice
	a.Situation = s
	return a
}

// Explain says what an error of Do means for the request's sender. Pass the error as Do returned it; nil is
// [SituationProcessed]. An error that is not from Do is [SituationOutcomeUnknown], because nothing is known of its
// origin.
func (g *Guard) Explain(err error) Advice { return g.ExplainOutcome(Outcome{Stored: true}, err) }

// ExplainOutcome is Explain for callers of [Guard.Do], which also returns an Outcome. It tells [SituationReplayed],
// [SituationUnprotected] and [SituationUnsaved] from [SituationProcessed], and finds failures that a protocol expresses
// as a Result ([Result.Failed]) as well as those that work returns as an error.
func (g *Guard) ExplainOutcome(out Outcome, err error) Advice {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return g.adviceFor(situationOf(err), refusal.Record)
	}
	var failure *Failure
	if err == nil || errors.As(err, &failure) {
		return g.adviceFor(endSituation(out, failure), Record{Age: out.Age})
	}
	return g.adviceFor(situationOf(err), Record{})
}

// ExplainQuota says what a request gets whose caller has used up its quota of keys, and should wait before it uses
// another one. Adapters call it before Do. It reads the record and claims nothing; like Do it may be given a context
// that does not end, because [Options.StoreTimeout] bounds it.
//
//   - A key that has ended, was abandoned, or was released with saved steps is known: refused is false, and Do answers
//     as for any caller.
//   - A key in flight is refused at once as [SituationInFlight], also under a Wait policy: a request that waits takes
//     resources, of which this caller has its share.
//   - A key without a record is refused as [SituationQuotaExceeded]: nothing was executed.
//   - If the store fails, or is no [Inspector], the key is refused as SituationQuotaExceeded with [ExecutedUnknown]: an
//     earlier request may have run.
func (g *Guard) ExplainQuota(ctx context.Context, k Key, wait time.Duration) (a Advice, refused bool) {
	known, err := g.newest(ctx, k.Digest())
	quota := SituationQuotaExceeded.Advice()
	quota.RetryAfter = wait
	switch {
	case errors.Is(err, ErrKeyUnknown):
		return quota, true
	case err != nil:
		quota.Executed = ExecutedUnknown
		return quota, true
	case known.State == Pending && known.LeaseLeft > 0:
		return g.adviceFor(SituationInFlight, known.WithoutTrail()), true
	case known.KeyLeft > 0:
		return Advice{}, false
	}
	return quota, true
}

// adviceFor adds what depends on the policy and on the record.
func (g *Guard) adviceFor(s Situation, known Record) Advice {
	a := s.Advice()
	a.Record = known
	switch {
	case s == SituationInFlight:
		a.RetryAfter = untilEnd(known.Age, known.LeaseLeft, g.policy.Lease)
	case s == SituationOutcomeUnknown && g.policy.OnAbandoned.Resumes():
		a.Retryable, a.Final, a.RetryAfter = true, false, time.Second
		a.Detail = "The operation started, but its outcome was not recorded. Retry with the same key to resume it."
	}
	return a
}

// endSituation returns the situation of work that has ended.
func endSituation(out Outcome, failure *Failure) Situation {
	switch {
	case !out.Stored && !out.Unprotected:
		return SituationUnsaved
	case failure != nil && failure.Resolved:
		return SituationClosed
	case failure != nil || out.Result.Failed:
		return SituationFailed
	case out.Replayed:
		return SituationReplayed
	case out.Unprotected:
		return SituationUnprotected
	}
	return SituationProcessed
}

// situationOf returns the situation of an error that is no failure of the work.
func situationOf(err error) Situation {
	var (
		left *callerLeft
		work *workError
	)
	switch {
	case errors.Is(err, ErrAbandoned): // before the work's own error, which it may wrap
		return SituationOutcomeUnknown
	case errors.As(err, &work):
		return SituationReleased
	case errors.As(err, &left):
		return SituationCanceled
	case errors.Is(err, ErrMismatch):
		return SituationMismatch
	case errors.Is(err, ErrNotReplayable):
		return SituationNotReplayable
	case errors.Is(err, ErrInFlight), errors.Is(err, ErrWaitTimeout), errors.Is(err, ErrLeaseLost):
		return SituationInFlight
	case errors.Is(err, ErrStoreFailed), errors.Is(err, ErrStoreFull):
		return SituationStoreUnavailable
	case errors.Is(err, ErrShutdown):
		return SituationShuttingDown
	case errors.Is(err, ErrInvalidKey):
		return SituationKeyMalformed
	}
	return SituationOutcomeUnknown
}

// Bounds of the wait that is advised while an attempt is in flight.
const (
	shortestRetry = 100 * time.Millisecond
	longestRetry  = 30 * time.Second
)

// untilEnd estimates how long an attempt in flight still takes. age is how long it has taken so far; leaseLeft is what
// is left of its lease, which is lease long and is extended every third of that.
//
// An attempt that is alive takes about as long again as it has taken. While it is, more than three fifths of its lease
// are left. One that has missed a heartbeat is most likely dead, and nothing changes for its key before its lease ends.
func untilEnd(age, leaseLeft, lease time.Duration) time.Duration {
	guess := age
	switch {
	case leaseLeft <= 0: // not known
	case leaseLeft < lease*3/5:
		guess = leaseLeft
	default:
		guess = min(age, leaseLeft)
	}
	return min(max(guess, shortestRetry), longestRetry)
}
