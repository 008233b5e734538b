package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

var (
	// ErrOutcomeUnknown is returned, inside an *OutcomeUnknownError, for an intent that may have run or not, and for
	// which the client has stopped asking.
	ErrOutcomeUnknown = errors.New("client: the outcome is unknown")
	// ErrNotReplayable is returned, inside a *NotReplayableError, for an intent that has run and ended, and whose
	// answer the server did not keep, so that this client cannot have it.
	ErrNotReplayable = errors.New("client: the operation has ended, but the server did not keep its answer")
	// ErrKeyRequired is returned with Options.RequireKey for a request that has no key, is not named with WithIntent or
	// WithKey, and does not have the context of an attempt. Nothing was sent.
	ErrKeyRequired = errors.New("client: the request has no key and RequireKey allows no random one: " +
		"send it with the context of the attempt, or name it with WithIntent or WithKey")
	// ErrUnnamedCall is returned for a second call to the same URL or method in one attempt of a Guard, and for a
	// second one in one retrysafe.Step. Nothing was sent: name both calls with WithOperation.
	ErrUnnamedCall = errors.New("client: an attempt makes the same call twice, or a step calls twice: name the calls " +
		"with WithOperation")
)

// The values of [OutcomeUnknownError.Why]: why the client stopped asking.
const (
	GaveUpAttempts   = "attempts"    // Options.Attempts are used up
	GaveUpInFlight   = "in-flight"   // for all of Options.MaxInFlight the server said that another attempt is at work
	GaveUpBudget     = "budget"      // the server's retry budget is used up
	GaveUpHorizon    = "horizon"     // after Options.Horizon the server may have forgotten the key
	GaveUpRetryAfter = "retry-after" // the server asks for a longer wait than Options.MaxRetryAfter
	GaveUpContext    = "context"     // the context ended, or would before the next attempt
	GaveUpAnswer     = "answer"      // the server's answer does not tell, and a further one would not either
	GaveUpRefused    = "refused"     // the last answer says nothing of earlier attempts, such as a refusal with 403
	GaveUpJournal    = "journal"     // the journal failed, and may or may not have kept the intent
)

// OutcomeUnknownError is the error for an intent of which it is unknown whether it ran. It is [ErrOutcomeUnknown], and
// the error of the last attempt, so that status.FromError and connect.CodeOf find its code.
//
// Ask again later under the same key ([WithKey] with Key), or find out on the other side what happened. A new key would
// run the operation a second time if it has run. Inside the work of a Guard, return the error through
// [retrysafe.Unknown]: then the outcome of that work is unknown too.
type OutcomeUnknownError struct {
	// Digest names the key in logs without revealing it: that of a retrysafe.Key whose scope is made of the origin and
	// the name given to WithCredential.
	Digest retrysafe.Digest
	// Intent is the text of WithIntent's; empty without. It is in no text of the error, because the key can be
	// computed from it.
	Intent string
	// Method and Origin of the request, see Event.
	Method, Origin string
	// Attempts in this process.
	Attempts int
	// Status, Header (without the key, if it was echoed) and Body (its first 64 KiB) of the last HTTP answer; zero if
	// there was none, and over gRPC, where Err is the answer.
	Status int
	Header http.Header
	Body   []byte
	// Err is the last attempt's error; nil if there was an HTTP answer.
	Err error
	// BegunAt is when the intent began, by this machine's clock.
	BegunAt time.Time
	// RetryAfter is the wait that the server asked for; 0: none.
	RetryAfter time.Duration
	// Why the client stopped asking: one of the GaveUp constants.
	Why string

	key func() string // a function does not print
}

// Key returns the key, to ask again with. Treat it like a credential: it is in no text of the error.
func (e *OutcomeUnknownError) Key() string { return e.key() }

// Error tells what happened, in words that hold neither key nor URL.
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
	if e.final() {
		return "stopped (" + e.Why + "): find out on the other side what happened before using a new key"
	}
	return "stopped (" + e.Why + "): ask again under the same key, or find out on the other side what happened"
}

// final reports whether no further attempt can tell the outcome.
func (e *OutcomeUnknownError) final() bool { return e.Why == GaveUpAnswer || e.Why == GaveUpHorizon }

// Unwrap returns [ErrOutcomeUnknown] and Err.
func (e *OutcomeUnknownError) Unwrap() []error { return withCause(ErrOutcomeUnknown, e.Err) }

// NotReplayableError is the error for an intent that has run and ended, and whose answer the server can give again
// only in part: the body was too large to keep, was streamed, or is past its retention. This client has not seen the
// first answer. It is also the error if the answer was a redirect and following it has failed; Err says why.
//
// Nothing is left to retry: a new key would run the operation a second time. Read what the operation made with another
// request, at the header's Location if the server names one.
type NotReplayableError struct {
	// Digest names the key in logs, see OutcomeUnknownError; zero if following a redirect has failed.
	Digest retrysafe.Digest
	// Method and Origin of the request, see Event.
	Method, Origin string
	// Status and Header of the HTTP answer, as far as they were kept; without the key, if it was echoed.
	Status int
	Header http.Header
	// Err is the answer over gRPC, whose reason is IDEMPOTENT_RESPONSE_NOT_KEPT. Over HTTP it is why a redirect could not
	// be followed, or nil.
	Err error
}

// Error tells how the operation ended and what to do.
func (e *NotReplayableError) Error() string {
	ended := fmt.Sprintf("status %d", e.Status)
	if e.Err != nil {
		ended = strings.TrimPrefix(ended+", "+e.Err.Error(), "status 0, ")
	}
	under := ""
	if e.Digest != (retrysafe.Digest{}) {
		under = " under key " + e.Digest.String()
	}
	return fmt.Sprintf("%v: %s %s%s: %s; read the result with another request, and do not send a new key",
		ErrNotReplayable, e.Method, e.Origin, under, ended)
}

// Unwrap returns [ErrNotReplayable] and Err.
func (e *NotReplayableError) Unwrap() []error { return withCause(ErrNotReplayable, e.Err) }

func withCause(sentinel, cause error) []error {
	if cause == nil {
		return []error{sentinel}
	}
	return []error{sentinel, cause}
}

// unknown returns the error for a call whose outcome is unknown, and discards its last reply.
func (c *call) unknown(r Reply, why string) error {
	e := &OutcomeUnknownError{
		Digest: c.digest, Intent: c.entry.Intent, Method: c.request.Method, Origin: c.request.Origin, Attempts: c.attempts,
		Status: r.Status, Err: r.Err, BegunAt: c.entry.BegunAt, RetryAfter: r.RetryAfter, Why: why,
		key: func() string { return c.entry.Key },
	}
	if r.IsAnswer {
		e.Header, e.Body = c.x.Answer()
		c.x.Discard()
	}
	switch ended := c.ctx.Err(); {
	case ended == nil || errors.Is(e.Err, ended):
	case e.Err == nil:
		e.Err = ended
	default:
		e.Err = fmt.Errorf("%w (%w)", e.Err, ended)
	}
	c.observe(Event{Kind: IntentUnknown, Unknown: e})
	return e
}

// notReplayable returns the error for a call whose answer was not kept, and discards the reply that says so.
func (c *call) notReplayable(r Reply) error {
	header, _ := c.x.Answer()
	c.x.Discard()
	return &NotReplayableError{
		Digest: c.digest, Method: c.request.Method, Origin: c.request.Origin, Status: r.Status, Header: header, Err: r.Err,
	}
}
