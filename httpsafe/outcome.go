package httpsafe

import (
	"errors"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
)

// end says how the handler's work ended.
func (r *recorder) end() (retrysafe.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.current
	if r.sealed.memory != nil && p.status == 0 && !r.ctx.Completed() {
		p.begin(http.StatusInternalServerError, r.w.Header()) // the transaction failed, and the handler had nothing to say about it
	}
	p.end(r.w.Header(), r.sniffed())
	switch r.class(p.status) {
	case ClassRelease:
		return retrysafe.Result{}, retrysafe.Retryable(errReleased)
	case classUnknown:
		return retrysafe.Result{}, retrysafe.Unknown(errUnknown)
	}
	return r.resultOf(p), nil
}

// class returns the response's class with the policy for ambiguous ones applied.
func (r *recorder) class(status int) Class {
	class := r.override
	if class == 0 {
		class = r.m.class(status)
	}
	if class != ClassAmbiguous {
		return class
	}
	switch r.m.ambiguous {
	case AmbiguousRelease:
		return ClassRelease
	case AmbiguousUnknown:
		return classUnknown
	}
	return ClassStore
}

// abort ends a recorder whose handler has panicked.
func (r *recorder) abort() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = ended
}

// answer words what the guard has decided.
func (x *exchange) answer(out retrysafe.Outcome, err error) {
	ran := x.recorder != nil
	switch {
	case x.panicked != nil:
	case ran && (err == nil || errors.Is(err, errReleased) || errors.Is(err, errUnknown)):
		x.deliver(out, err)
	case ran && !x.takeBack(): // something is on its way already
	case err == nil:
		x.replay(out)
	default:
		x.explain(out, err)
	}
}

// explain answers when there is no response.
func (x *exchange) explain(out retrysafe.Outcome, err error) {
	var (
		p       *Problem
		refusal *retrysafe.Refusal
		failure *retrysafe.Failure
	)
	switch {
	case errors.As(err, &p):
		x.refuse(*p)
	case errors.As(err, &refusal):
		x.explainRefusal(refusal)
	case errors.As(err, &failure): // the handler panicked
		status := string(appendExpiry([]byte("replayed"), out.ReplayLeft))
		x.refuseKnown(seen(problem(OutcomeUnknown), retrysafe.Record{Age: out.Age}), status, true)
	case errors.Is(err, retrysafe.ErrAbandoned):
		x.refuseUnknown(retrysafe.Record{})
	case x.r.Context().Err() != nil: // most likely nobody reads this any more
		x.explainInFlight(retrysafe.Record{Key: x.request.Key})
	default: // ErrStoreFailed, ErrStoreFull, ErrShutdown
		x.refuse(problem(StoreUnavailable))
	}
}

func (x *exchange) explainRefusal(refusal *retrysafe.Refusal) {
	known := refusal.Record
	switch {
	case errors.Is(refusal, retrysafe.ErrMismatch):
		x.refuse(x.withMismatch(seen(problem(KeyReused), known), known.Result))
	case errors.Is(refusal, retrysafe.ErrNotReplayable):
		p := seen(problem(KeyExpired), known)
		p.Executed = "yes"
		expired := time.Now().Add(x.m.guard.Policy().Retention.Replay - known.EndedAge)
		x.refuse(p.with("expired_at", expired.UTC().Format(time.RFC3339)))
	case errors.Is(refusal, retrysafe.ErrAbandoned):
		x.refuseUnknown(known)
	default: // ErrInFlight, ErrWaitTimeout; ErrLeaseLost: another attempt has taken over
		x.explainInFlight(known)
	}
}

// explainInFlight answers with 409, or with the address of the status.
func (x *exchange) explainInFlight(known retrysafe.Record) {
	p := seen(problem(RequestInFlight), known)
	p.RetryAfter = retryAfter(known)
	x.setPreferenceApplied()
	if x.m.inFlightStatus {
		x.accept(p.RetryAfter)
		return
	}
	x.refuseKnown(p, "in-flight", false)
}

// refuseUnknown says that nobody knows the outcome: the same for every retry, unless the Guard goes on with abandoned keys.
func (x *exchange) refuseUnknown(known retrysafe.Record) {
	p := seen(problem(OutcomeUnknown), known)
	if x.m.resumes {
		p.Retryable = true
		p.Detail = "The operation began and was not seen to end. Retry unchanged with the same key, under which it is gone on with."
	}
	x.refuseKnown(p, x.m.unknownStatus(), !x.m.resumes)
}

// unknownStatus is the Idempotency-Status of an outcome that nobody knows. Its parameter retry, a boolean (RFC 9651, section
// 3.1.2), says that the key was abandoned under Rerun or Reconcile, so that asking again helps.
func (c *config) unknownStatus() string {
	if c.resumes {
		return "unknown; retry"
	}
	return "unknown"
}

// refuse answers with a problem about the request's key.
func (x *exchange) refuse(p Problem) {
	p.Instance = "urn:retrysafe:key:" + x.request.Key.String()
	x.m.refuse(x.w, p)
}

// refuseKnown refuses with an Idempotency-Status, and as a replay if the answer is the same for every retry.
func (x *exchange) refuseKnown(p Problem, status string, replayed bool) {
	h := x.w.Header()
	x.m.setStatus(h, status)
	if replayed && x.m.marker != "" {
		h[x.m.marker] = []string{"true"}
	}
	x.refuse(p)
}

// withMismatch names the parts of the request that differ, where the record tells.
func (x *exchange) withMismatch(p Problem, stored retrysafe.Result) Problem {
	now := x.m.fingerprint.checksOf(&x.compared)
	if names := now.mismatch(about(string(stored.Meta), aboutChecks)); names != nil {
		return p.with("mismatch", names)
	}
	return p
}

// seen adds when the key was first claimed.
func seen(p Problem, known retrysafe.Record) Problem {
	if known.Age > 0 {
		p.FirstSeen = time.Now().Add(-known.Age)
	}
	return p
}

// retryAfter guesses how long an attempt still takes: as long as it has taken so far, but not longer than its lease if
// that is not prolonged; between 1 and 30 seconds.
func retryAfter(known retrysafe.Record) time.Duration {
	guess := known.Age
	if known.LeaseLeft > 0 {
		guess = min(guess, known.LeaseLeft)
	}
	return min(max(guess, time.Second), 30*time.Second)
}
