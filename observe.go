package retrysafe

import (
	"context"
	"slices"
	"time"
)

// Observer is told what happens to requests and keys. It is called by many goroutines at once and must not block,
// because work waits for it. Ignore kinds of events that you do not know: new versions may add some.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function that is an Observer.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Event is one thing that happened. Fields that its Kind does not mention are zero, except Key, which only SweepEnded
// lacks.
type Event struct {
	Kind EventKind
	// Key prints as its digest.
	Key Key
	// Fence and Attempt are those of the attempt that the event is about.
	Fence   int64
	Attempt int
	// Took is how long it took: the work, for what ends an attempt; the wait, for waiting.
	Took time.Duration
	// Count is how many records a sweep has removed.
	Count int
	// Err is why it happened, for kinds of failure. It may hold the text of the work's own errors.
	Err error
}

// EventKind names what happened. String gives a name fit for a metric's label.
type EventKind uint8

const (
	// AttemptStarted: the key was claimed and the work starts. Fence, Attempt.
	AttemptStarted EventKind = iota + 1
	// AttemptResumed: as AttemptStarted, of a key that an earlier attempt left abandoned, or released after steps.
	AttemptResumed
	// AnswerReplayed: a retry was answered from the record. Fence, Attempt.
	AnswerReplayed
	// AnswerOmitted: a retry was told that the work is done, and how it ended, but not its answer, which was not kept.
	// See Result.Omitted. Fence, Attempt.
	AnswerOmitted
	// InFlightRefused, WaitTimedOut, MismatchRefused, AbandonedRefused, NotReplayableRefused: a request was refused
	// with ErrInFlight, ErrWaitTimeout, ErrMismatch, ErrAbandoned, ErrNotReplayable. Fence, Attempt.
	InFlightRefused
	WaitTimedOut
	MismatchRefused
	AbandonedRefused
	NotReplayableRefused
	// WorkSucceeded, WorkFailed: the work ended and its result is saved. Fence, Attempt, Took.
	WorkSucceeded
	WorkFailed
	// WorkReleased: the work reported that nothing happened (Retryable). Fence, Attempt, Took, Err.
	WorkReleased
	// WorkUnknown: the work panicked, or reported that it cannot tell what happened (Unknown). Fence, Attempt, Took,
	// Err.
	WorkUnknown
	// StepUnused: the work has succeeded without a step that an earlier attempt had saved, most likely because the step
	// has another name now: its effect may have happened twice. Fence, Attempt, Err, which names the step.
	StepUnused
	// LeaseTaken: another attempt took the key over while this one was working. The writes of this one are refused.
	// Fence, Attempt.
	LeaseTaken
	// SaveFailed: the work ended, or a step of it, and the store failed to save that. The end of work is saved again in
	// the background. Fence, Attempt, Took, Err.
	SaveFailed
	// SavedLate: the end of the work is saved now, after SaveFailed. Fence, Attempt, Took.
	SavedLate
	// SaveAbandoned: saving was given up after SaveFailed, because the lease is lost or the Guard was shut down. Fence,
	// Attempt, Took, Err.
	SaveAbandoned
	// StoreFailed: the store failed when a key was claimed. Err.
	StoreFailed
	// RanUnprotected: the work runs although the store failed (FailOpen). Err.
	RanUnprotected
	// FingerprintIncomparable: the record's fingerprint was made by another algorithm than the request's, so that the
	// Guard could not detect a mismatch.
	FingerprintIncomparable
	// SweepEnded: a background sweep ended. Count, Took, Err.
	SweepEnded
	// KeyResolved: a person's decision about an abandoned key was carried out (Guard.Resolve). Fence, Attempt.
	KeyResolved
	// KeyPurged: the answer of a key was dropped (Guard.Purge). Fence, Attempt.
	KeyPurged
)

// String returns the kind's name in snake case.
func (k EventKind) String() string {
	return name(int(k), "attempt_started", "attempt_resumed", "answer_replayed", "answer_omitted", "in_flight_refused",
		"wait_timed_out", "mismatch_refused", "abandoned_refused", "not_replayable_refused", "work_succeeded", "work_failed",
		"work_released", "work_unknown", "step_unused", "lease_taken", "save_failed", "saved_late", "save_abandoned", "store_failed",
		"ran_unprotected", "fingerprint_incomparable", "sweep_ended", "key_resolved", "key_purged")
}

// WithObserver returns a Guard that tells o, after the observers of g, what happens to the requests that it is given.
// Both Guards share everything else, Shutdown included. SweepEnded is told only to the observer that New was given,
// because sweeps belong to no Guard in particular.
func (g *Guard) WithObserver(o Observer) *Guard {
	observed := *g
	observed.observers = append(slices.Clip(g.observers), o)
	return &observed
}

// observers are told of each event in order.
type observers []Observer

// Observe implements Observer.
func (all observers) Observe(ctx context.Context, e Event) {
	for _, o := range all {
		o.Observe(ctx, e)
	}
}

func (g *Guard) observe(ctx context.Context, e Event) { g.observers.Observe(ctx, e) }
