package retrysafe

import (
	"errors"
	"fmt"
)

// What a Guard or a Store answers with; branch on these with errors.Is.
var (
	// ErrMismatch: the key was first used for a different request. Retrying will not help; use a new key.
	ErrMismatch = errors.New("retrysafe: key was used for a different request")
	// ErrInFlight: another attempt is working on the key. Retry later with the same key.
	ErrInFlight = errors.New("retrysafe: an attempt is in flight")
	// ErrWaitTimeout: another attempt is working on the key, and was still working when the wait ended. Retry later
	// with the same key.
	ErrWaitTimeout = errors.New("retrysafe: still in flight after waiting")
	// ErrAbandoned: an attempt began and never ended, so that it is unknown what it did. Every retry is told so until
	// a person finds out and resolves the key: see Guard.Resolve.
	ErrAbandoned = errors.New("retrysafe: outcome unknown")
	// ErrNotReplayable: the work has run, and its answer is not kept: it was omitted, or its replay window has
	// passed. It will not run again under this key.
	ErrNotReplayable = errors.New("retrysafe: done, but the answer is not replayable")
	// ErrLeaseLost: another attempt has taken the key over, or this one has ended; nothing was changed.
	ErrLeaseLost = errors.New("retrysafe: lease lost")
	// ErrStoreFull: the store has reached its limit and takes no new keys. Nothing was run.
	ErrStoreFull = errors.New("retrysafe: store is full")
	// ErrStoreFailed: the store could not say whether the key is free. Nothing was run.
	ErrStoreFailed = errors.New("retrysafe: store failed")
	// ErrInvalidKey: the key is empty or too long.
	ErrInvalidKey = errors.New("retrysafe: invalid key")
	// ErrNoAttempt: the context does not come from a Guard's attempt.
	ErrNoAttempt = errors.New("retrysafe: not inside an attempt")
	// ErrShutdown: the Guard is shutting down. Nothing was run.
	ErrShutdown = errors.New("retrysafe: guard is shutting down")
)

// Refusal is the error for a key that another attempt has or had. It wraps one of ErrMismatch, ErrInFlight,
// ErrWaitTimeout, ErrAbandoned, ErrNotReplayable and ErrLeaseLost, and carries the record that explains it.
type Refusal struct {
	Reason error
	Record Record
}

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
	// Resolved says that the work has not ended: a person has ended the key as failed, without an answer, after its outcome
	// was unknown. See ResolveFail.
	Resolved bool
	// Cause is that error itself. A replay has none: use it for logs, not for decisions.
	Cause error
}

func (f *Failure) Error() string { return f.Message }

// Terminal marks err as final: it is saved and replayed. Errors without a mark are treated the same.
func Terminal(err error) error { return TerminalCode(0, err) }

// TerminalCode marks err as final and gives it a code that every retry sees in its Failure.
func TerminalCode(code int, err error) error { return mark(err, terminal, code) }

// Retryable marks err as the worker's word that nothing happened: the key is released, and the next request with it
// runs the work afresh (or, after saved steps, resumes).
//
// A mark speaks for one attempt and does not leave Guard.Do: work that returns what another Guard's Do has returned to it
// has failed for good, unless it marks that error for itself.
func Retryable(err error) error { return mark(err, retryable, 0) }

// Unknown marks err as the worker's word that it cannot tell what happened: the key is abandoned at once, and the
// policy for abandoned keys decides what the next request gets.
func Unknown(err error) error { return mark(err, unknown, 0) }

// workError is an error that Do returns of work which did not end. To the caller its mark is spent, and answers of
// other Guards that the work has called are not answers of this one: errors.Is and errors.As find what else is inside.
type workError struct{ inside error }

func (w *workError) Error() string { return w.inside.Error() }

// Is implements what errors.Is asks for.
func (w *workError) Is(target error) bool {
	switch target {
	case ErrMismatch, ErrInFlight, ErrWaitTimeout, ErrAbandoned, ErrNotReplayable, ErrLeaseLost, ErrStoreFull, ErrStoreFailed,
		ErrShutdown:
		return false
	}
	return errors.Is(w.inside, target)
}

// As implements what errors.As asks for.
func (w *workError) As(target any) bool {
	switch target.(type) {
	case **classified, **Refusal, **Failure:
		return false
	}
	return errors.As(w.inside, target)
}

// callerLeft is an error that occurred because the caller's context ended. Explain tells it from a store's timeout by its type,
// since both are context.DeadlineExceeded.
type callerLeft struct{ error }

func (c *callerLeft) Unwrap() error { return c.error }

// class is what a worker's error says about the work.
type class uint8

const (
	terminal class = iota
	retryable
	unknown
)

// classified is an error with a mark. It prints as the error inside.
type classified struct {
	error
	class class
	code  int
}

func (c *classified) Unwrap() error { return c.error }

func mark(err error, c class, code int) error {
	if err == nil {
		return nil
	}
	return &classified{error: err, class: c, code: code}
}

// classify returns the outermost mark of err; none means terminal.
func classify(err error) (class, int) {
	if err == nil {
		return terminal, 0
	}
	var c *classified
	if errors.As(err, &c) {
		return c.class, c.code
	}
	return terminal, 0
}
