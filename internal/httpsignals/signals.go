// Package httpsignals reads what an HTTP response says about an idempotent operation: that it is a replay, that another
// attempt is at work, that nothing ran. It knows the header fields and error bodies of this module's middleware and of
// the payment providers whose profiles it has. The client reads every answer with it; the middleware asks it whether a
// handler's answer is the "in flight" of another layer.
package httpsignals

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/retry"
)

// Set is a set of signals.
type Set uint32

// The signals that a response can give.
const (
	Replayed Set = 1 << iota // it has the replay marker
	NotKept                  // and its body was not kept
	Executed                 // it is the operation's own answer, not that of a layer before it
	Unknown                  // the server does not know the outcome
	Resumes                  // nor does it, but a retry makes it resume the operation
	InFlight                 // another attempt is at work
	Reused                   // the key was used for another request
	Expired                  // the answer under the key has expired
	Refused                  // the request was not accepted; nothing ran
	Ignored                  // the key has no effect here
	Retry                    // the server asks for a retry
	Stop                     // the server asks for no retry
	Nothing                  // whatever the status, nothing ran
	Custom                   // the first value that is free for the signals of a transport
)

// MaxBody is how much of a body is read for signals, in bytes.
const MaxBody = 64 << 10

// Response is what a response says.
type Response struct {
	Set
	// RetryAfter is how long the server asks the client to wait; 0: it does not say.
	RetryAfter time.Duration
	// Retention is how long the server keeps this answer, of an operation that it has just executed with success; 0: it
	// does not say.
	Retention time.Duration
}

// Read reads the header of a response, and the body if it is an error of at most MaxBody bytes. marker is the header
// field that marks replays, beside the usual ones; it may be empty.
func Read(r *http.Response, body []byte, marker string) Response {
	s := Response{byHeader(r, marker), retry.After(r.Header, time.Now()), retention(r.StatusCode, r.Header)}
	if r.StatusCode >= 300 && len(body) <= MaxBody {
		s.readBody(r, body)
	}
	return s
}

// IsInFlight reports whether a response says that another attempt is at work under its key.
func IsInFlight(r *http.Response, body []byte) bool {
	s := byHeader(r, "")
	if len(body) <= MaxBody {
		s |= byBody(r, body, decoded(body), s)
	}
	return s&InFlight != 0
}

// readBody adds what the body says.
func (s *Response) readBody(r *http.Response, body []byte) {
	v := decoded(body)
	found := byBody(r, body, v, s.Set) | byLink(r)
	if saysExecuted(r, v) { // a refusal of a retry, such as one beyond a quota
		found &^= Nothing
	}
	if found&Unknown != 0 && s.Set&Unknown == 0 && (found|s.Set)&Retry != 0 {
		found |= Resumes // a middleware's header field takes precedence over its body
	}
	if found&(Retry|Refused) != 0 {
		s.Set &^= Reused // a header field says so of any request that was rejected
	}
	s.Set |= found
	if isProblem(r) {
		s.RetryAfter = inMilliseconds(s.RetryAfter, r.Header, v)
	}
}

// decoded returns the JSON of a body; nil if it is not JSON.
func decoded(body []byte) (v any) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil {
		return nil
	}
	return v
}

// byHeader reads the fields that servers and providers use.
func byHeader(r *http.Response, marker string) (s Set) {
	h := r.Header
	for _, name := range []string{marker, "Idempotent-Replayed", "Idempotency-Replayed", "X-Idempotency-Replayed"} {
		if name != "" && isTrue(h.Get(name)) {
			s |= Replayed
		}
	}
	s |= byStatus(h.Get("Idempotency-Status"))
	for _, name := range []string{"Stripe-Should-Retry", "Transient-Error"} {
		switch value := h.Get(name); {
		case isTrue(value):
			s |= Retry
		case strings.EqualFold(value, "false"):
			s |= Stop
		}
	}
	if strings.EqualFold(h.Get("Repeatability-Result"), "rejected") {
		s |= map[int]Set{
			http.StatusBadRequest: Reused, http.StatusConflict: InFlight, http.StatusPreconditionFailed: Expired,
		}[r.StatusCode]
	}
	if strings.EqualFold(h.Get("Repeatability-Result"), "accepted") {
		s |= Executed
	}
	code, _, _ := strings.Cut(h.Get("X-Amzn-Errortype"), ":")
	return s | byMessage(code, r.StatusCode, s)
}

// byStatus reads Idempotency-Status: a token with parameters (RFC 9651, section 3.3).
func byStatus(text string) Set {
	status, parameters, _ := strings.Cut(text, ";")
	s := map[string]Set{
		"executed": Executed, "replayed": Replayed, "unknown": Unknown, "in-flight": InFlight, "released": Nothing,
		"ignored": Ignored,
	}[strings.TrimSpace(status)]
	for p := range strings.SplitSeq(parameters, ";") {
		switch p = strings.TrimSpace(p); {
		case s == Unknown && (p == "retry" || p == "retry=?1"):
			return Resumes
		case s == Replayed && p == "body=?0":
			return Replayed | NotKept
		}
	}
	return s
}

// retention returns how long an answer is kept, if Idempotency-Status says that it is new. Both ends are by the server's
// clock: without its Date the end says nothing, because the clocks may differ. Failures may be kept for less long than
// what a later request must not do again, and so they say nothing either.
func retention(code int, h http.Header) time.Duration {
	status, parameters, _ := strings.Cut(h.Get("Idempotency-Status"), ";")
	date, err := http.ParseTime(h.Get("Date"))
	if strings.TrimSpace(status) != "executed" || err != nil || code >= http.StatusBadRequest {
		return 0
	}
	for p := range strings.SplitSeq(parameters, ";") {
		if at, ok := strings.CutPrefix(strings.TrimSpace(p), "exp=@"); ok {
			second, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				return 0
			}
			return max(time.Unix(second, 0).Sub(date), 0)
		}
	}
	return 0
}

func isTrue(value string) bool {
	return strings.EqualFold(value, "true") || value == "?1" || value == "1"
}

// byBody reads the messages that servers and providers use in error bodies. header is what the header says already.
func byBody(r *http.Response, body []byte, v any, header Set) (s Set) {
	if code, ok := xmlCode(body); ok { // older services of Amazon
		return byMessage(code, r.StatusCode, header)
	}
	var m messages
	m.collect(v, 0)
	for _, text := range m.found {
		s |= byMessage(text, r.StatusCode, header)
	}
	switch {
	case !m.conflict:
	case m.created || r.Header.Get("Retry-After") == "":
		s |= Executed // by an earlier request
	default:
		s |= InFlight
	}
	if isProblem(r) {
		s |= byProblem(v)
	}
	return s
}

func isProblem(r *http.Response) bool {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return mediaType == "application/problem+json"
}

// byProblem reads the members that a problem of ours has (RFC 9457 lets problems have their own).
func byProblem(v any) (s Set) {
	o, _ := v.(map[string]any)
	switch o["retryable"] {
	case true:
		s |= Retry
	case false:
		s |= Stop
	}
	if o["executed"] == "no" {
		s |= Nothing
	}
	return s
}

// saysExecuted reports whether a problem of ours says that the operation was or may have been executed, whatever its
// code says of requests in general.
func saysExecuted(r *http.Response, v any) bool {
	o, _ := v.(map[string]any)
	return isProblem(r) && (o["executed"] == "yes" || o["executed"] == "unknown")
}

// inMilliseconds returns the milliseconds of a problem of ours if they agree with Retry-After, which is rounded up to
// whole seconds, or if Retry-After is missing. Otherwise it returns seconds.
func inMilliseconds(seconds time.Duration, h http.Header, problem any) time.Duration {
	o, _ := problem.(map[string]any)
	number, _ := o["retry_after_ms"].(json.Number)
	ms, err := strconv.ParseUint(number.String(), 10, 31)
	exact := time.Duration(ms) * time.Millisecond
	switch {
	case err != nil, h.Get("Retry-After") != "" && (exact > seconds || exact <= seconds-time.Second):
		return seconds
	}
	return exact
}
