package rpcsafe

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/keytext"
	"github.com/retrysafe/retrysafe/internal/retry"
)

// exchange is one keyed call on its way through the guard.
type exchange struct {
	s        *Server
	call     Call
	handle   Handle
	carrier  string // of the key: the metadata's name, or the field's
	request  retrysafe.Request
	run      *Run // nil: the handler has not run
	reply    Reply
	panicked any
}

// How work ends that is not stored.
var (
	errReleased = errors.New("the answer says that nothing happened")
	errUnknown  = errors.New("the answer leaves open what happened")
	errAborted  = errors.New("the handler panicked")
	errTooOld   = errors.New("the key may have been forgotten")
)

// do asks the guard and answers.
func (x *exchange) do(ctx context.Context) Reply {
	out, err := x.s.guard.Do(ctx, x.request, x.work)
	ran := x.run != nil
	switch {
	case x.panicked != nil:
		panic(x.panicked)
	case ran && (err == nil || errors.Is(err, errReleased) || errors.Is(err, errUnknown)):
		return x.reply
	case err == nil:
		return x.replay(out)
	}
	return x.s.refusal(x.explain(ctx, err))
}

// work is what is guarded: it calls the handler.
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

// isTooOld reports whether the call may be a retry of one whose record has been forgotten. It is asked only when there is no record.
func (x *exchange) isTooOld() bool {
	if x.s.o.MaxKeyAge <= 0 {
		return false
	}
	made, ok := keytext.UUID7Time(x.request.Key.ID)
	return ok && time.Since(made) > x.s.o.MaxKeyAge
}

// afterPanic says what a handler's panic means for the key. To release it, the panic goes on only after that.
func (x *exchange) afterPanic(p any) error {
	if x.s.ambiguous() == AmbiguousRelease {
		x.panicked = p
		return retrysafe.Retryable(errAborted)
	}
	panic(p) // from here, so that its stack is still there; the guard abandons the key
}

// explain says why there is no answer.
func (x *exchange) explain(ctx context.Context, err error) problem {
	var (
		refusal *retrysafe.Refusal
		failure *retrysafe.Failure
		p       problem
	)
	switch {
	case errors.As(err, &refusal):
		p = x.explainRefusal(refusal)
	case errors.Is(err, errTooOld):
		p = problemOf(ReasonKeyExpired)
		p.executed = "unknown"
	case errors.Is(err, retrysafe.ErrAbandoned): // nobody could say what happened
		p = x.outcomeUnknown()
	case errors.As(err, &failure) && failure.Resolved:
		p = problemOf(ReasonKeyClosed)
	case failure != nil: // of work that was no handler's: there is no answer
		p = problemOf(ReasonOutcomeUnknown)
	case ctx.Err() != nil: // most likely nobody reads this any more
		p = x.inFlight(retrysafe.Record{})
	default: // ErrStoreFailed, ErrStoreFull, ErrShutdown
		p = problemOf(ReasonStoreUnavailable)
	}
	return p.about(x.request.Key, x.carrier)
}

func (x *exchange) explainRefusal(refusal *retrysafe.Refusal) problem {
	known := refusal.Record
	switch {
	case errors.Is(refusal, retrysafe.ErrMismatch):
		return problemOf(ReasonKeyReused).seen(known)
	case errors.Is(refusal, retrysafe.ErrNotReplayable):
		return problemOf(ReasonKeyExpired).seen(known)
	case errors.Is(refusal, retrysafe.ErrAbandoned):
		return x.outcomeUnknown().seen(known)
	}
	return x.inFlight(known) // ErrInFlight, ErrWaitTimeout; ErrLeaseLost: another attempt has taken over
}

// outcomeUnknown is the answer about an abandoned key. Where the policy is to go on with such keys, the next call may get further.
func (x *exchange) outcomeUnknown() problem {
	p := problemOf(ReasonOutcomeUnknown)
	if !resumes(x.s.guard.Policy()) {
		return p
	}
	p.retryable, p.replayed, p.retryAfter = true, false, time.Second
	p.message = "the operation started but its outcome was not recorded; retry with the same idempotency key to resume it"
	return p
}

func (x *exchange) inFlight(known retrysafe.Record) problem {
	p := problemOf(ReasonInFlight).seen(known)
	p.retryAfter = retry.InFlight(known.Age, known.LeaseLeft, x.s.guard.Policy().Lease, leastRetryAfter)
	if x.s.o.InFlightUnavailable {
		p.code = code.Code_UNAVAILABLE
	}
	return p
}

// leastRetryAfter is the shortest wait that a refusal in flight asks for.
const leastRetryAfter = 100 * time.Millisecond

// replay answers from a stored result.
func (x *exchange) replay(out retrysafe.Outcome) Reply {
	s := x.s
	reply, p := s.decode(out.Result, x.call.Method)
	if p != nil {
		return s.refusal(p.about(x.request.Key, x.carrier))
	}
	if reply.Header == nil {
		reply.Header = Metadata{}
	}
	reply.Header[s.o.Marker] = []string{"true"}
	if reply.Status != nil { // clients need not ask again
		reply.Trailer = reply.Trailer.with(pushback, "-1")
	}
	return reply
}

// pushback is the trailer by which a server steers gRPC's own retries (gRFC A6): milliseconds, or -1 for none.
const pushback = "grpc-retry-pushback-ms"

func pushbackOf(after time.Duration) string {
	if after <= 0 {
		return "-1"
	}
	return strconv.FormatInt(int64(math.Ceil(float64(after)/float64(time.Millisecond))), 10)
}

func (md Metadata) with(name, value string) Metadata {
	if md == nil {
		md = Metadata{}
	}
	md[name] = []string{value}
	return md
}
