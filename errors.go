package retrysafe

import (
	"errors"
	"fmt"
)

// Errors that a Guard or a Store returns. Branch on them with errors.Is, or let [Guard.Explain] say what they mean for
// a client.
var (
	// ErrMismatch is returned when the key was first used for a different request. A retry gets the same; use a new
	// key.
	ErrMismatch = errors.New("retrysafe: key was used for a different request")
	// ErrInFlight is returned when another attempt is working on the key. Retry later with the same key.
	ErrInFlight = errors.New("retrysafe: an attempt is in flight")
	// ErrWaitTimeout is returned when another attempt is working on the key, and was still working when the time of a
	// Wait policy ended. Retry later with the same key.
	ErrWaitTimeout = errors.New("retrysafe: still in flight after waiting")
	// ErrAbandoned is returned when an attempt started and never ended, so that it is unknown what it did. Every retry
	// gets the same until a person finds out and resolves the key: see Guard.Resolve.
	ErrAbandoned = errors.New("retrysafe: outcome unknown")
	// ErrNotReplayable is returned when the work has run and its answer is not kept: it was omitted, or its replay
	// window has passed. The work will not run again under this key.
	ErrNotReplayable = errors.New("retrysafe: done, but the answer is not replayable")
	// ErrLeaseLost is returned when another attempt has taken the key over, or this one has ended. Nothing was changed,
	// unless the call was repeated because its answer was lost, by the caller or by the store itself: the first try may
	// have changed the record before the lease was lost.
	ErrLeaseLost = errors.New("retrysafe: lease lost")
	// ErrStoreFull is returned when the store has reached its limit and takes no new keys. Nothing was run.
	ErrStoreFull = errors.New("retrysafe: store is full")
	// ErrResultTooLarge is returned by a Store that will never take a result or a step of that size. Nothing was changed.
	// The Guard saves the result without its answer then, as one that is larger than Policy.MaxResult; Step fails.
	ErrResultTooLarge = errors.New("retrysafe: larger than the store accepts")
	// ErrUnreadable is returned by a Store for a key that has a record which it cannot read: another version or another
	// program has written it, or a part of it is missing. The Guard returns it with ErrStoreFailed, and runs nothing, also
	// under [FailOpen].
	ErrUnreadable = errors.New("retrysafe: the key has a record that cannot be read")
	// ErrStoreFailed is returned when the store failed before it could say whether the key is free. Nothing was run.
	ErrStoreFailed = errors.New("retrysafe: store failed")
	// ErrInvalidKey is returned for a key that is empty or too long. See Key.Validate.
	ErrInvalidKey = errors.New("retrysafe: invalid key")
	// ErrNoAttempt is returned when a context is not that of a Guard's attempt or derived from it.
	ErrNoAttempt = errors.New("retrysafe: not inside an attempt")
	// ErrShutdown is returned after Guard.Shutdown was called. Nothing was run.
	ErrShutdown = errors.New("retrysafe: guard is shutting down")
)

// Refusal is the error that [Guard.Do] returns for a key that another attempt has or had. It wraps one of
// [ErrMismatch], [ErrInFlight], [ErrWaitTimeout], [ErrAbandoned], [ErrNotReplayable] and [ErrLeaseLost], and carries
// the record that explains it.
type Refusal struct {
	// Reason is the error that Refusal wraps.
	Reason error
	// Record is what the store knew of the key, without the trail.
	Record Record
}

// Error names the key by its digest, and the reason.
func (r *Refusal) Error() string {
	return fmt.Sprintf("key %s: %v", r.Record.Key, r.Reason)
}

// Unwrap returns the reason.
func (r *Refusal) Unwrap() error { return r.Reason }

// Failure is the error of work that failed for good. The first caller and every retry get the same one, so it wraps
// nothing that a replay could not give again: branch on Code.
type Failure struct {
	// Code is what TerminalCode was given; 0 otherwise.
	Code int
	// Message is the text of the error that the work returned.
	Message string
	// Resolved says that the failure is not the work's: its outcome was unknown, and a person resolved the key as
	// failed, without an answer. See ResolveFail.
	Resolved bool
	// Cause is the error that the work returned; nil in a replay. Use it for logs, not for decisions, because a retry
	// would decide otherwise.
	Cause error
}

// Error returns Message.
func (f *Failure) Error() string { return f.Message }

// Class says what an answer of the work means for its key. Adapters derive it from the protocol's status: an HTTP
// status, a gRPC code.
type Class uint8

const (
	// ClassStore means that the outcome is definite: the answer is kept and replayed.
	ClassStore Class = iota + 1
	// ClassRelease means that nothing happened: the answer is sent, and the key is free again. RerunTx says once, for
	// HTTP, RPC and queues, that every error without a mark and every answer of ClassAmbiguous means this. One run says it
	// for itself with Retryable(err) if it returns an error, and with httpsafe.Release(ctx) or rpcsafe.Release(ctx) if it
	// answers.
	ClassRelease
	// ClassAmbiguous means that something may have happened: an AmbiguousPolicy decides.
	ClassAmbiguous
	// ClassUnknown means that it cannot be told what happened: the answer is sent, and the key is abandoned.
	ClassUnknown
)

// String returns "store", "release", "ambiguous" or "unknown".
func (c Class) String() string { return name(int(c), "store", "release", "ambiguous", "unknown") }

// Terminal marks err as final: it is saved as the key's failure, and every retry gets it. What an error without a mark
// means is said at Work. Terminal(nil) is nil.
func Terminal(err error) error { return TerminalCode(0, err) }

// TerminalCode marks err as final, like [Terminal], and gives it a code that every retry finds in [Failure.Code]. The
// code must fit 32 bits.
func TerminalCode(code int, err error) error { return mark(err, ClassStore, code) }

// Retryable marks err as the work's report that nothing happened: the key is released, and the next request with it
// runs the work again (or, after saved steps, resumes it). Under [RerunTx] an error without a mark means the same.
//
// Work that has taken over an abandoned key under [Rerun] says so for the attempts before it, too: a key without saved
// steps is then free for any request, also for one that differs. If they may have had an effect, use [Unknown].
//
// A mark applies to one attempt and does not leave [Guard.Do]. An error of another Guard's Do that the work returns has
// no mark, unless the work gives it one.
func Retryable(err error) error { return mark(err, ClassRelease, 0) }

// Unknown marks err as the work's report that it cannot tell what happened: the key is abandoned at once, and
// [Policy.OnAbandoned] decides what the next request gets.
func Unknown(err error) error { return mark(err, ClassUnknown, 0) }

// workError is the error that Do returns for work that released or abandoned its key. It hides two things from the
// caller. The mark is one: it applied to this attempt. Errors of other Guards are the other: work may have called a
// Guard whose key is in flight, which says nothing about this key. errors.Is and errors.As find everything else that is
// inside.
type workError struct{ inside error }

func (w *workError) Error() string { return w.inside.Error() }

// Is implements what errors.Is asks for.
func (w *workError) Is(target error) bool {
	switch target {
	case ErrMismatch, ErrInFlight, ErrWaitTimeout, ErrAbandoned, ErrNotReplayable, ErrLeaseLost, ErrStoreFull,
		ErrStoreFailed, ErrShutdown:
		return false
	}
	return errors.Is(w.inside, target)
}

// As implements what errors.As asks for.
func (w *workError) As(target any) bool {
	switch target.(type) {
	case **marked, **Refusal, **Failure:
		return false
	}
	return errors.As(w.inside, target)
}

// callerLeft is an error that occurred because the caller's context ended. Explain tells it from a store's timeout by
// its type, since both are context.DeadlineExceeded.
type callerLeft struct{ error }

func (c *callerLeft) Unwrap() error { return c.error }

// marked is an error with a mark, which says what the error means for the key. It prints as the error inside.
type marked struct {
	error
	class Class
	code  int
}

func (m *marked) Unwrap() error { return m.error }

func mark(err error, class Class, code int) error {
	if err == nil {
		return nil
	}
	return &marked{error: err, class: class, code: code}
}

// markOf returns the class and the code of err's outermost mark; 0 without one.
func markOf(err error) (Class, int) {
	var m *marked
	if errors.As(err, &m) {
		return m.class, m.code
	}
	return 0, 0
}
