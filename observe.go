package retrysafe

import (
	"context"
	"slices"
	"time"
)

// Observer is told what happens. It is called by many goroutines at once and must not block. An observer that wants to
// be told of some kinds only ignores the others: new kinds may come with new versions.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function that is an Observer.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Event is one thing that happened. Fields that its Kind does not mention are zero.
type Event struct {
	Kind EventKind
	Key  Key
	// Fence and Attempt of the attempt in question.
	Fence   int64
	Attempt int
	// Took is how long it took: the work, for what ends an attempt; the wait, for waiting.
	Took time.Duration
	// Count is how many records a sweep has removed.
	Count int
	Err   error
}

// EventKind names what happened. String gives a name fit for a metric's label.
type EventKind uint8

const (
	// AttemptStarted: the key was claimed and the work begins (a miss). Fence, Attempt.
	AttemptStarted EventKind = iota + 1
	// AttemptResumed: as AttemptStarted, of a key that an earlier attempt left abandoned, or released after steps.
	AttemptResumed
	// AnswerReplayed: a retry was answered from the record (a hit).
	AnswerReplayed
	// AnswerOmitted: a retry was told that the work is done, and how it ended, but its answer was not kept. See
	// Result.Omitted.
	AnswerOmitted
	// InFlightRefused, WaitTimedOut, MismatchRefused, AbandonedRefused, NotReplayableRefused: a request was refused
	// with the error of the same name.
	InFlightRefused
	WaitTimedOut
	MismatchRefused
	AbandonedRefused
	NotReplayableRefused
	// WorkSucceeded, WorkFailed: the work ended and its result is saved. Fence, Attempt, Took.
	WorkSucceeded
	WorkFailed
	// WorkReleased: the work said that nothing happened. Fence, Attempt, Took, Err.
	WorkReleased
	// WorkUnknown: the work panicked, or said that it cannot tell what happened. Fence, Attempt, Took, Err.
	WorkUnknown
	// StepUnused: the work has succeeded without a step that an earlier attempt had saved, most likely because the step has
	// another name now: its effect may have happened twice. Fence, Attempt, Err, which names the step.
	StepUnused
	// LeaseTaken: another attempt took over while this one, now a zombie, was working. Its writes are refused. Fence,
	// Attempt.
	LeaseTaken
	// SaveFailed: the work ended and its end could not be saved; it is tried again in the background. Err.
	SaveFailed
	// SavedLate: what SaveFailed told of is saved now.
	SavedLate
	// SaveAbandoned: what SaveFailed told of was given up: the lease is lost or the Guard was shut down. Err.
	SaveAbandoned
	// StoreFailed: the store could not be asked. Err.
	StoreFailed
	// RanUnprotected: the work ran although the store could not be asked (FailOpen). Err.
	RanUnprotected
	// FingerprintIncomparable: the record's fingerprint was made by another algorithm than the request's, so that
	// a mismatch could not be seen.
	FingerprintIncomparable
	// SweepEnded: a background sweep ended. Count, Took, Err.
	SweepEnded
	// KeyResolved: a person's decision about an abandoned key was carried out (Guard.Resolve). Fence, Attempt.
	KeyResolved
	// KeyPurged: what was answered of a key was dropped (Guard.Purge). Fence, Attempt.
	KeyPurged
)

// String returns the kind's name in snake case.
func (k EventKind) String() string {
	return name(int(k), "attempt_started", "attempt_resumed", "answer_replayed", "answer_omitted", "in_flight_refused",
		"wait_timed_out", "mismatch_refused", "abandoned_refused", "not_replayable_refused", "work_succeeded", "work_failed",
		"work_released", "work_unknown", "step_unused", "lease_taken", "save_failed", "saved_late", "save_abandoned", "store_failed",
		"ran_unprotected", "fingerprint_incomparable", "sweep_ended", "key_resolved", "key_purged")
}

// WithObserver returns a Guard that tells o, after the observers of g, what happens to the requests that it is given. Both
// Guards share everything else, Shutdown included. SweepEnded is told only to the observer that New was given, because
// sweeps belong to no Guard in particular.
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
