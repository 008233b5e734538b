package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/httpsignals"
)

// ErrOutcomeUnknown: the operation may have run or not, and the client has stopped asking. See OutcomeUnknownError.
var ErrOutcomeUnknown = errors.New("httpsafe: the outcome is unknown")

// Why a client stopped asking: OutcomeUnknownError.Why.
const (
	GaveUpAttempts   = "attempts"    // TransportOptions.Attempts are used up
	GaveUpInFlight   = "in-flight"   // the server said for all of TransportOptions.MaxInFlight that another attempt is at work
	GaveUpBudget     = "budget"      // the retry budget of the origin is used up
	GaveUpHorizon    = "horizon"     // later the server may have forgotten the key
	GaveUpRetryAfter = "retry-after" // the server asks for more patience than MaxRetryAfter
	GaveUpContext    = "context"     // the context ended, or would before the next attempt
	GaveUpAnswer     = "answer"      // the server's answer does not tell, and would not the next time
	GaveUpRefused    = "refused"     // the last attempt was refused before the server looked at the key
	GaveUpJournal    = "journal"     // the journal failed, and may or may not have kept the intent
)

// OutcomeUnknownError is the error for an intent of which it is unknown whether it ran. It is ErrOutcomeUnknown, and what
// the last attempt failed with.
//
// Ask again later under the same key (WithKey with Key), or find out on the other side what happened. A new key would do it
// a second time, if it was done. Inside the work of a Guard, return the error through retrysafe.Unknown: then the outcome
// of that work is unknown too.
type OutcomeUnknownError struct {
	// Digest names the key in logs without revealing it: that of a retrysafe.Key whose scope is made of the origin and
	// what WithCredential said.
	Digest retrysafe.Digest
	// Intent is the text of WithIntent's; empty without. It is in no text of the error: who knows it can make the key.
	Intent string
	// Method and Origin (scheme and host) of the request.
	Method, Origin string
	// Attempts in this process.
	Attempts int
	// Status, Header (without the key, if it was echoed) and Body (its first 64 KiB) of the last answer; 0 and nil if
	// there was none.
	Status int
	Header http.Header
	Body   []byte
	// Err is what the last attempt failed with; nil if there was an answer.
	Err error
	// BegunAt is when the intent began, by this machine's clock.
	BegunAt time.Time
	// RetryAfter is what the server asked for; 0: nothing.
	RetryAfter time.Duration
	// Why the client stopped asking: one of the GaveUp constants.
	Why string

	key func() string // a function does not print
}

// Key returns the key, to ask again with. Keep it as you keep credentials: it is in no text of the error.
func (e *OutcomeUnknownError) Key() string { return e.key() }

func (e *OutcomeUnknownError) Error() string {
	text := fmt.Sprintf("%v: %s %s under key %s, %d attempts since %s", ErrOutcomeUnknown, e.Method, e.Origin, e.Digest,
		e.Attempts, e.BegunAt.UTC().Format(time.RFC3339))
	switch {
	case e.Err != nil:
		text += ", the last failed: " + e.Err.Error()
	case e.Status != 0:
		text += fmt.Sprintf(", the last was answered with %d", e.Status)
	}
	return text + "; " + e.Advice()
}

// Advice says what to do, for people.
func (e *OutcomeUnknownError) Advice() string {
	switch e.Why {
	case GaveUpAnswer, GaveUpHorizon:
		return "stopped (" + e.Why + "): find out on the other side what happened before using a new key"
	}
	return "stopped (" + e.Why + "): ask again under the same key, or find out on the other side what happened"
}

// Unwrap returns ErrOutcomeUnknown and Err.
func (e *OutcomeUnknownError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrOutcomeUnknown}
	}
	return []error{ErrOutcomeUnknown, e.Err}
}

// unknown returns the error for a call whose outcome is unknown, and ends its last answer.
func (c *call) unknown(v verdict, why string) error {
	e := &OutcomeUnknownError{
		Digest: c.digest, Intent: c.intent, Method: c.request.Method, Origin: c.origin(), Attempts: c.attempts,
		Status: v.status, Err: v.err, BegunAt: c.begunAt, RetryAfter: v.RetryAfter, Why: why, key: func() string { return c.key },
	}
	if v.response != nil {
		e.Header, e.Body = c.headerOf(v), v.start[:min(len(v.start), httpsignals.MaxBody)]
		v.discard()
	}
	switch ended := c.ctx.Err(); {
	case ended == nil || errors.Is(e.Err, ended):
	case e.Err == nil:
		e.Err = ended
	default:
		e.Err = fmt.Errorf("%w (%w)", e.Err, ended)
	}
	if f := c.t.options.UnknownFunc; f != nil {
		f(c.ctx, e)
	}
	return e
}

// headerOf returns the header of an answer, without the key if it was echoed.
func (c *call) headerOf(v verdict) http.Header {
	h := v.response.Header.Clone()
	for _, name := range c.t.carrier.aliases {
		h.Del(name)
	}
	return h
}

// ErrNotReplayable is what a *NotReplayableError is.
var ErrNotReplayable = errors.New("httpsafe: the operation has ended, but the server did not keep its answer")

// NotReplayableError is the error for an intent that has run and ended, and whose answer the server can give again only in
// part: the body was too large to keep, was streamed, or is past its retention. The client has not seen the first answer.
//
// Nothing is left to retry: a new key would run the operation a second time. Read what the operation made with another
// request, at Location if the server names one.
type NotReplayableError struct {
	// Digest names the key in logs, see OutcomeUnknownError.
	Digest retrysafe.Digest
	// Method and Origin (scheme and host) of the request.
	Method, Origin string
	// Status and Header of the answer, as far as they were kept; without the key, if it was echoed.
	Status int
	Header http.Header
}

func (e *NotReplayableError) Error() string {
	return fmt.Sprintf("%v: %s %s under key %s ended with status %d; read the result with another request, and do not send a new key",
		ErrNotReplayable, e.Method, e.Origin, e.Digest, e.Status)
}

// Unwrap returns ErrNotReplayable.
func (e *NotReplayableError) Unwrap() error { return ErrNotReplayable }

// notReplayable returns the error for a call whose answer was not kept, and ends the reply that says so.
func (c *call) notReplayable(v verdict) error {
	v.discard()
	return &NotReplayableError{Digest: c.digest, Method: c.request.Method, Origin: c.origin(), Status: v.status, Header: c.headerOf(v)}
}
