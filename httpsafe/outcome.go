package httpsafe

import (
	"errors"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/httpsignals"
	"github.com/retrysafe/retrysafe/internal/retry"
)

// end says how the handler's work ended.
func (r *recorder) end() (retrysafe.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.current
	if r.captured && p.status == 0 && !r.ctx.Control().Completed() {
		p.begin(http.StatusInternalServerError, r.w.Header()) // the transaction failed, and the handler had nothing to say about it
	}
	p.end(r.w.Header(), r.sniffed())
	switch r.class(p) {
	case retrysafe.ClassRelease:
		return retrysafe.Result{}, retrysafe.Retryable(errReleased)
	case classBusy:
		return retrysafe.Result{}, retrysafe.Retryable(errBusy)
	case retrysafe.ClassUnknown:
		return retrysafe.Result{}, retrysafe.Unknown(errUnknown)
	case classUnsure:
		if r.m.Ambiguous == retrysafe.AmbiguousRelease {
			return retrysafe.Result{}, retrysafe.Retryable(errFreed)
		}
		return retrysafe.Result{}, retrysafe.Unknown(errUnknown)
	}
	return r.resultOf(p), nil
}

// class returns the response's class with the policy for ambiguous ones applied.
func (r *recorder) class(p *response) retrysafe.Class {
	switch {
	case r.override != 0:
		return r.override
	case p.saysInFlight():
		return classBusy
	}
	return r.m.Ambiguous.Apply(r.m.Profile.Class(p.status))
}

// saysInFlight reports whether a response is the refusal of another layer that works under the same key: a guard of the service
// itself, or a provider. It is no outcome; kept, it would be the answer for as long as the record lasts.
func (p *response) saysInFlight() bool {
	if p.status < 400 || p.status > 499 {
		return false
	}
	r := http.Response{StatusCode: p.status, Header: http.Header{}}
	for _, f := range p.fields {
		if !f.trailer {
			r.Header[http.CanonicalHeaderKey(f.name)] = f.values
		}
	}
	body := p.body
	if isGzip(first(r.Header["Content-Encoding"])) {
		body = gunzip(body, httpsignals.MaxBody)
	}
	return httpsignals.IsInFlight(&r, body)
}

// isHandlersWord reports whether work ended without a result because its response says so.
func isHandlersWord(err error) bool {
	for _, word := range [...]error{errReleased, errBusy, errUnknown, errFreed} {
		if errors.Is(err, word) {
			return true
		}
	}
	return false
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
	case ran && (err == nil || isHandlersWord(err)):
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
	case errors.As(err, &failure): // of work that was no handler's: there is no response
		x.explainFailure(out, failure)
	case errors.Is(err, retrysafe.ErrAbandoned):
		x.refuseUnknown(retrysafe.Record{})
	case x.r.Context().Err() != nil: // most likely the client has left
		x.explainInFlight(retrysafe.Record{Key: x.request.Key})
	default: // ErrStoreFailed, ErrStoreFull, ErrShutdown
		x.refuse(problem(StoreUnavailable))
	}
}

// explainFailure answers with a final failure that has no response: the same for every retry.
func (x *exchange) explainFailure(out retrysafe.Outcome, failure *retrysafe.Failure) {
	p := problem(OutcomeUnknown)
	if failure.Resolved {
		p = problem(KeyClosed)
	}
	if x.m.Profile.Marker != "" {
		x.w.Header()[x.m.Profile.Marker] = []string{"true"}
	}
	x.refuseKnown(seen(p, retrysafe.Record{Age: out.Age}), string(appendExpiry([]byte("replayed"), out.ReplayLeft)))
}

func (x *exchange) explainRefusal(refusal *retrysafe.Refusal) {
	known := refusal.Record
	switch {
	case errors.Is(refusal, retrysafe.ErrMismatch):
		x.refuse(x.withMismatch(seen(problem(KeyReused), known), known.Result))
	case errors.Is(refusal, retrysafe.ErrNotReplayable):
		p := seen(problem(KeyExpired), known)
		p.Executed = "yes"
		ago := max(0, known.EndedAge-x.m.policy.Retention.Replay) // 0: a person has dropped the answer before its time
		expired := time.Now().Add(-ago)
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
	p.RetryAfter = x.m.retryAfter(known)
	x.setPreferenceApplied()
	if x.m.InFlightStatus {
		x.accept(p.RetryAfter)
		return
	}
	x.refuseKnown(p, "in-flight")
}

// refuseUnknown says that the outcome is unknown: the same for every retry, unless the Guard goes on with abandoned keys.
// It is no replay, and is not marked as one.
func (x *exchange) refuseUnknown(known retrysafe.Record) {
	p := seen(problem(OutcomeUnknown), known)
	if x.m.resumes {
		p.Retryable, p.RetryAfter = true, time.Second
		p.Detail = "The operation started but its outcome was not recorded. Retry with the same key to resume it."
	}
	x.refuseKnown(p, x.m.unknownStatus())
}

// unknownStatus is the Idempotency-Status of an unknown outcome. Its parameter retry, a boolean (RFC 9651, section
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

// refuseKnown refuses with an Idempotency-Status.
func (x *exchange) refuseKnown(p Problem, status string) {
	x.m.setStatus(x.w.Header(), status)
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

// retryAfter estimates how long an attempt still takes: from 1 to 30 seconds.
func (c *config) retryAfter(known retrysafe.Record) time.Duration {
	return retry.InFlight(known.Age, known.LeaseLeft, c.policy.Lease, time.Second)
}
