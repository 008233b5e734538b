package httpsafe

import (
	"errors"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/httpsignals"
)

// end returns how the handler's work ended: with a result to store, or with one of the errors by which the guard
// releases or abandons the key. An error of a response that a transaction has committed is only reported.
func (r *recorder) end() (retrysafe.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.current
	if r.captured && p.status == 0 && !r.ctx.Control().Completed() {
		// The transaction failed, and the handler has written nothing since.
		p.begin(http.StatusInternalServerError, r.w.Header())
	}
	p.end(r.w.Header(), r.sniffed())
	if r.late {
		return retrysafe.Result{}, errSaved
	}
	if err := r.m.endOf(r.class(p)); err != nil {
		return retrysafe.Result{}, err
	}
	return r.resultOf(p), nil
}

// endOf returns the error by which a response of a class ends the work; nil if the response is stored.
func (c *config) endOf(class retrysafe.Class) error {
	switch class {
	case retrysafe.ClassRelease:
		return retrysafe.Retryable(errReleased)
	case classBusy:
		return retrysafe.Retryable(errBusy)
	case retrysafe.ClassUnknown:
		return retrysafe.Unknown(errUnknown)
	case classUnsure:
		if c.Ambiguous == retrysafe.AmbiguousRelease {
			return retrysafe.Retryable(errFreed)
		}
		return retrysafe.Unknown(errUnknown)
	}
	return nil
}

// class returns the class of the response. The policy for ambiguous ones is applied.
func (r *recorder) class(p *response) retrysafe.Class {
	class := r.m.classOf(p, r.override)
	if class == retrysafe.ClassAmbiguous && r.ctx.Err() != nil && r.m.Ambiguous == retrysafe.AmbiguousStore {
		return retrysafe.ClassUnknown // most likely the work was interrupted, as by Policy.Timeout
	}
	return r.m.Ambiguous.Apply(class)
}

// classOf returns the class of a response, or what the handler has said that it is; 0: nothing.
func (c *config) classOf(p *response, said retrysafe.Class) retrysafe.Class {
	switch {
	case said != 0:
		return said
	case p.saysInFlight():
		return classBusy
	}
	return c.class(p)
}

// saysInFlight reports whether a response is the refusal of another layer that works under the same key: a guard of
// the service itself, or a payment provider. It is not an outcome. If it were stored, every retry would get it for as
// long as the record lasts.
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

// isHandlersWord reports whether the work has no result because the response of the handler says so.
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

// answer sends the answer that follows from the guard's decision: the response of the handler, a replay, or a
// refusal.
func (x *exchange) answer(out retrysafe.Outcome, err error) {
	ran := x.recorder != nil
	switch {
	case x.panicked != nil:
	case ran && err == nil && out.CompletedElsewhere:
		x.deliverStored(out)
	case ran && (err == nil || isHandlersWord(err) || x.releasedElsewhere(err)):
		x.deliver(out, err)
	case ran && !x.takeBack(): // a part of the response is already sent
	case err == nil:
		x.replay(out)
	default:
		x.explain(out, err)
	}
}

// explain answers when there is no response.
func (x *exchange) explain(out retrysafe.Outcome, err error) {
	if p := new(Problem); errors.As(err, &p) {
		x.refuse(*p)
		return
	}
	x.advise(x.m.guard.ExplainOutcome(out, err), out.ReplayLeft)
}

// advise answers with the guard's advice.
func (x *exchange) advise(a retrysafe.Advice, replayLeft time.Duration) {
	p := problemOf(a)
	switch a.Situation {
	case retrysafe.SituationMismatch:
		x.refuse(x.withMismatch(p, a.Record.Result))
	case retrysafe.SituationNotReplayable:
		ago := max(0, a.Record.EndedAge-x.m.policy.RetentionOf(a.Record.Result).Replay) // 0: an operator has purged the answer
		x.refuse(p.with("expired_at", time.Now().Add(-ago).UTC().Format(time.RFC3339)))
	case retrysafe.SituationOutcomeUnknown: // no replay, and not marked as one
		x.refuseKnown(p, x.m.unknownStatus())
	case retrysafe.SituationFailed, retrysafe.SituationClosed:
		if x.m.Profile.Marker != "" {
			x.w.Header()[x.m.Profile.Marker] = []string{"true"}
		}
		x.refuseKnown(p, string(appendExpiry([]byte("replayed"), replayLeft)))
	case retrysafe.SituationInFlight, retrysafe.SituationCanceled:
		x.setPreferenceApplied()
		p.RetryAfter = max(p.RetryAfter, time.Second)
		if x.m.InFlightStatus {
			x.accept("pending", p.RetryAfter)
			return
		}
		x.refuseKnown(p, "in-flight")
	default:
		x.refuse(p)
	}
}

// adviseOn answers with the advice for a refusal because of a record.
func (x *exchange) adviseOn(reason error, known retrysafe.Record) {
	x.advise(x.m.guard.Explain(&retrysafe.Refusal{Reason: reason, Record: known}), 0)
}

// unknownStatus returns the Idempotency-Status of an unknown outcome. Its parameter retry, a boolean (RFC 9651,
// section 3.1.2), says that the key was abandoned under Rerun or Reconcile, so that a retry helps.
func (c *config) unknownStatus() string {
	if c.resumes {
		return "unknown; retry"
	}
	return "unknown"
}

// refuse answers with a problem that names the key of the request by its digest.
func (x *exchange) refuse(p Problem) {
	p.Instance = x.m.Instance(x.request.Key)
	x.writeProblem(p)
}

// refuseKnown refuses with an Idempotency-Status.
func (x *exchange) refuseKnown(p Problem, status string) {
	x.m.setStatus(x.w.Header(), status)
	x.refuse(p)
}

// withMismatch names the parts of the request that differ, if the record has checks.
func (x *exchange) withMismatch(p Problem, stored retrysafe.Result) Problem {
	now := x.m.fingerprint.checksOf(&x.compared)
	if names := now.mismatch(about(string(stored.Meta), aboutChecks)); names != nil {
		return p.with("mismatch", names)
	}
	return p
}
