package rpcsafe

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// exchange is one keyed call on its way through the Guard.
type exchange struct {
	s        *Server
	call     Call
	handle   Handle
	carrier  string // name of the metadata entry or field that carries the key
	request  retrysafe.Request
	run      *Run // nil: the handler has not run
	reply    Reply
	panicked any
}

// Errors by which work tells the Guard not to store its answer.
var (
	errReleased = errors.New("the answer asserts that nothing happened")
	errUnknown  = errors.New("the answer does not show what happened")
	errAborted  = errors.New("the handler panicked")
	errTooOld   = errors.New("the record of the key may have expired")
)

// do runs the call through the Guard and returns the reply.
//
// ctx ends when the client has left, and over Connect on HTTP/1.1 also when it has only closed its sending half and
// still reads. Either way the call has arrived: it is claimed and runs, but does not wait for another attempt. To stop
// in the middle of a claim would also leave the key taken by nobody until that is undone. A call whose deadline has
// passed before the claim is refused, because no client waits for its answer any more.
func (x *exchange) do(ctx context.Context) Reply {
	x.request.WaitContext = ctx
	claims := ctx
	if !hasExpired(ctx) {
		claims = context.WithoutCancel(ctx)
	}
	out, err := x.s.guard.Do(claims, x.request, x.work)
	ran := x.run != nil
	switch {
	case x.panicked != nil:
		panic(x.panicked)
	case ran && err == nil && !out.Stored && !out.Unprotected:
		x.reply.Header = x.reply.Header.with(statusHeader, "executed; stored=?0")
		return x.reply
	case ran && (err == nil || errors.Is(err, errReleased) || errors.Is(err, errUnknown)):
		return x.reply
	case err == nil:
		return x.replay(out)
	}
	return x.s.reply(x.explain(err))
}

// hasExpired reports whether ctx has ended, and its deadline has passed.
func hasExpired(ctx context.Context) bool {
	at, limited := ctx.Deadline()
	return ctx.Err() != nil && limited && !time.Now().Before(at)
}

// statusHeader marks an answer that is not saved yet, in the words of Idempotency-Status over HTTP: a retry at another
// process may be told that the call is in flight, or that its outcome is unknown.
const statusHeader = "idempotency-status"

// work is the guarded work: it calls the handler.
func (x *exchange) work(_ context.Context, a *retrysafe.Attempt) (result retrysafe.Result, err error) {
	if a.Number() == 1 && x.isTooOld() {
		return retrysafe.Result{}, retrysafe.Retryable(errTooOld)
	}
	x.run = newRun(x.s, a, x.call.Method)
	ctx := context.WithValue(a, runKey{}, x.run)
	defer func() {
		if p := recover(); p != nil {
			err = x.afterPanic(p)
		}
	}()
	x.reply = x.handle(ctx, x.run)
	result, x.reply, err = x.run.end(x.reply)
	return result, err
}

// isTooOld reports whether the call may be a retry of one whose record has expired. It counts only where there is no
// record.
func (x *exchange) isTooOld() bool {
	if x.s.o.MaxKeyAge <= 0 {
		return false
	}
	made, ok := keytext.UUID7Time(x.request.Key.ID)
	return ok && time.Since(made) > x.s.o.MaxKeyAge
}

// afterPanic decides what a handler's panic means for the key. To release the key it returns an error, and do panics
// again afterwards.
func (x *exchange) afterPanic(p any) error {
	if x.s.ambiguous() == retrysafe.AmbiguousRelease {
		x.panicked = p
		return retrysafe.Retryable(errAborted)
	}
	panic(p) // here, where its stack still exists; the Guard abandons the key
}

// explain says why there is no answer.
func (x *exchange) explain(err error) *refusal {
	a := x.s.guard.Explain(err)
	switch {
	case errors.Is(err, errTooOld):
		a = retrysafe.SituationKeyTooOld.Advice()
	case a.Retryable && a.RetryAfter == 0: // pushback would say that the client must not retry
		a.RetryAfter = leastRetryAfter
	}
	return x.refuse(refuse(a))
}

// refuse adds to a refusal which key it is about.
func (x *exchange) refuse(r *refusal) *refusal {
	r.key, r.carrier = x.request.Key.String(), x.carrier
	if r.reason == ReasonInFlight && x.s.o.InFlightUnavailable {
		r.code = code.Code_UNAVAILABLE
	}
	return r
}

// leastRetryAfter is the wait that a retryable refusal asks for if nothing better is known.
const leastRetryAfter = 100 * time.Millisecond

// replay answers from a stored result.
func (x *exchange) replay(out retrysafe.Outcome) Reply {
	s := x.s
	reply, refused := s.decode(out.Result, x.call.Method)
	if refused != nil {
		return s.reply(x.refuse(refused))
	}
	if reply.Header == nil {
		reply.Header = Metadata{}
	}
	reply.Header[s.o.Marker] = []string{"true"}
	if !out.Stored {
		reply.Header[statusHeader] = []string{"replayed; stored=?0"}
	}
	if reply.Status != nil { // every retry gets the same
		reply.Trailer = reply.Trailer.with(pushback, "-1")
	}
	return reply
}

func (md Metadata) with(name, value string) Metadata {
	if md == nil {
		md = Metadata{}
	}
	md[name] = []string{value}
	return md
}
