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

// Event is one thing that happened. Fields that its Kind does not mention are zero, except Key, which only [SweepEnded]
// lacks.
type Event struct {
	Kind EventKind
	// Key prints as its digest.
	Key Key
	// Fence and Attempt are those of the attempt that the event is about.
	Fence   int64
	Attempt int
	// Took is how long the work took, for kinds that end an attempt, or the sweep.
	Took time.Duration
	// Count is the number of records that a sweep has deleted or whose bodies it has dropped.
	Count int
	// Err is why it happened, for kinds of failure. It may hold the text of the work's own errors.
	Err error
}

// EventKind names what happened. String gives a name fit for a metric's label.
type EventKind uint8

const (
	// AttemptStarted is reported when the key was claimed and the work starts. Fence, Attempt.
	AttemptStarted EventKind = iota + 1
	// AttemptResumed is reported instead of AttemptStarted for a key that an earlier attempt left abandoned, or
	// released after steps. Fence, Attempt.
	AttemptResumed
	// AnswerReplayed is reported when a retry was answered from the record. Fence, Attempt.
	AnswerReplayed
	// AnswerOmitted is reported when a retry was told that the work is done, and how it ended, but not its answer,
	// which was not kept. See Result.Omitted. Fence, Attempt.
	AnswerOmitted
	// InFlightRefused, WaitTimedOut, MismatchRefused, AbandonedRefused, NotReplayableRefused are reported when a
	// request was refused with ErrInFlight, ErrWaitTimeout, ErrMismatch, ErrAbandoned, ErrNotReplayable. Fence,
	// Attempt.
	InFlightRefused
	WaitTimedOut
	MismatchRefused
	AbandonedRefused
	NotReplayableRefused
	// WorkSucceeded, WorkFailed are reported when the work ended and its result is saved. Fence, Attempt, Took.
	WorkSucceeded
	WorkFailed
	// WorkReleased is reported when the work returned an error marked Retryable. Fence, Attempt, Took, Err.
	WorkReleased
	// WorkUnknown is reported when the work panicked or returned an error marked Unknown. Fence, Attempt, Took, Err.
	WorkUnknown
	// StepUnused is reported when the work has succeeded without a step that an earlier attempt had saved, most likely
	// because the step has another name now: its effect may have happened twice. Fence, Attempt, Err, which names the
	// step.
	StepUnused
	// LeaseTaken is reported when another attempt took the key over while this one was working. The writes of this one
	// are refused. Fence, Attempt.
	LeaseTaken
	// SaveFailed is reported when the work ended, or a step of it, and the store failed to save that. The end of work
	// is saved again in the background. Fence, Attempt, Took, Err.
	SaveFailed
	// SavedLate is reported when the end of the work is saved after all, after SaveFailed. Fence, Attempt, Took.
	SavedLate
	// SaveAbandoned is reported when saving was given up after SaveFailed, because the lease is lost or the Guard was
	// shut down. Fence, Attempt, Took, Err.
	SaveAbandoned
	// StoreFailed is reported when a key could not be claimed because the store failed. Err.
	StoreFailed
	// RanUnprotected is reported when the work runs although the store failed (FailOpen). Err.
	RanUnprotected
	// FingerprintIncomparable is reported when the record's fingerprint was made by another algorithm than the
	// request's, so that the Guard could not detect a mismatch.
	FingerprintIncomparable
	// SweepEnded is reported when a background sweep ended. Count, Took, Err.
	SweepEnded
	// KeyResolved is reported when a person's decision about an abandoned key was carried out (Guard.Resolve). Fence,
	// Attempt.
	KeyResolved
	// KeyPurged is reported when the answer of a key was dropped (Guard.Purge). Fence, Attempt.
	KeyPurged
	// CompletionMissing is reported, before the end of the attempt, when work that another process should have completed
	// has succeeded and the key was not completed: see AttemptControl.CompletedElsewhere. It is an error of that process:
	// its own writes and the answer are not in one transaction. Fence, Attempt, Took, Err.
	CompletionMissing
	// AnswerDiscarded is reported when work that had completed its key in its own transaction, such as InTx, went on and
	// returned an error, or its handler wrote to its response: callers get the answer that was committed. So it is if
	// another process has completed the key with a success, and then answers that it has failed. Fence, Attempt, Took,
	// Err.
	AnswerDiscarded
	// KeyReopened is reported when a key that had ended was reopened, so that its next retry runs the operation again
	// (Guard.Reopen). Fence, Attempt: those of the attempt that had ended.
	KeyReopened
)

// String returns the kind's name in snake case.
func (k EventKind) String() string {
	return name(int(k), "attempt_started", "attempt_resumed", "answer_replayed", "answer_omitted", "in_flight_refused",
		"wait_timed_out", "mismatch_refused", "abandoned_refused", "not_replayable_refused", "work_succeeded",
		"work_failed", "work_released", "work_unknown", "step_unused", "lease_taken", "save_failed", "saved_late",
		"save_abandoned", "store_failed", "ran_unprotected", "fingerprint_incomparable", "sweep_ended",
		"key_resolved", "key_purged", "completion_missing",
		"answer_discarded", "key_reopened")
}

// WithObserver returns a Guard that tells o, after the observers of g, what happens to the requests that it is given.
// Both Guards share everything else, Shutdown included. [SweepEnded] is told only to the observer that New was given,
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
