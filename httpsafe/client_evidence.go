package httpsafe

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/retry"
)

// evidence is what a reply shows, from which the table of signals judges.
type evidence struct {
	status      int // 0: no answer
	said        said
	retryAfter  time.Duration
	serverError bool     // a 500 that says nothing else
	location    *url.URL // where to follow to
}

// maxEvidence bounds how much of a body is looked at.
const maxEvidence = 64 << 10

// read returns what a reply shows.
func (c *call) read(p reply) evidence {
	if p.response == nil {
		return evidence{said: saidOfError(p)}
	}
	e := evidence{status: p.response.StatusCode, retryAfter: retry.After(p.response.Header, time.Now())}
	e.said = saidByHeader(p.response, c.t.options.Profile.Marker)
	if e.status >= 300 && len(p.start) <= maxEvidence {
		e.readBody(p)
	}
	if e.status == http.StatusTemporaryRedirect || e.status == http.StatusPermanentRedirect {
		if e.location = c.sameOrigin(p.response); e.location != nil {
			e.said |= saidSameOrigin
		}
	}
	if e.status == http.StatusUnauthorized && c.t.options.AuthorizeFunc != nil && !c.refreshed {
		e.said |= saidRefresh
	}
	e.serverError = e.status == http.StatusInternalServerError && e.said&saidRetry == 0
	return e
}

// readBody adds what the body says.
func (e *evidence) readBody(p reply) {
	v := decoded(p.start)
	words := saidByBody(p.response, p.start, v, e.said) | saidByLink(p.response)
	if words&saidUnknown != 0 && e.said&saidUnknown == 0 && (words|e.said)&saidRetry != 0 {
		words |= saidResumes // what a middleware says in the header counts more
	}
	if words&(saidRetry|saidRefused) != 0 {
		e.said &^= saidReused // a header says so of any request that was rejected
	}
	e.said |= words
	if isProblem(p.response) {
		e.retryAfter = moreExactly(e.retryAfter, p.response.Header, v)
	}
}

// decoded returns the JSON of a body; nil if it is none.
func decoded(body []byte) (v any) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil {
		return nil
	}
	return v
}

func saidOfError(p reply) said {
	switch {
	case isAuthorizeError(p.err):
		return saidNoAccess
	case p.sent:
		return saidNoAnswer
	}
	return saidNotSent
}

// saysInFlight reports whether an answer says that another attempt is at work under its key, in our words or a provider's.
// The server asks too, before it keeps a handler's answer.
func saysInFlight(r *http.Response, body []byte) bool {
	s := saidByHeader(r, "")
	if len(body) <= maxEvidence {
		s |= saidByBody(r, body, decoded(body), s)
	}
	return s&saidInFlight != 0
}

// saidByHeader reads the fields that servers and providers use.
func saidByHeader(r *http.Response, marker string) (s said) {
	h := r.Header
	for _, name := range []string{marker, "Idempotent-Replayed", "Idempotency-Replayed", "X-Idempotency-Replayed"} {
		if name != "" && isTrue(h.Get(name)) {
			s |= saidReplayed
		}
	}
	s |= saidByStatus(h.Get("Idempotency-Status"))
	for _, name := range []string{"Stripe-Should-Retry", "Transient-Error"} {
		switch value := h.Get(name); {
		case isTrue(value):
			s |= saidRetry
		case strings.EqualFold(value, "false"):
			s |= saidStop
		}
	}
	if strings.EqualFold(h.Get("Repeatability-Result"), "rejected") {
		s |= map[int]said{
			http.StatusBadRequest: saidReused, http.StatusConflict: saidInFlight, http.StatusPreconditionFailed: saidExpired,
		}[r.StatusCode]
	}
	code, _, _ := strings.Cut(h.Get("X-Amzn-Errortype"), ":")
	return s | saidByWord(code, r.StatusCode, s)
}

// saidByStatus reads Idempotency-Status: a token with parameters (RFC 9651, section 3.3).
func saidByStatus(text string) said {
	status, parameters, _ := strings.Cut(text, ";")
	s := map[string]said{
		"replayed": saidReplayed, "unknown": saidUnknown, "in-flight": saidInFlight, "released": saidNothing, "ignored": saidIgnored,
	}[strings.TrimSpace(status)]
	for p := range strings.SplitSeq(parameters, ";") {
		switch p = strings.TrimSpace(p); {
		case s == saidUnknown && (p == "retry" || p == "retry=?1"):
			return saidResumes
		case s == saidReplayed && p == "body=?0":
			return saidReplayed | saidNotKept
		}
	}
	return s
}

func isTrue(value string) bool {
	return strings.EqualFold(value, "true") || value == "?1" || value == "1"
}

// saidByBody reads the words that servers and providers use in error bodies.
func saidByBody(r *http.Response, body []byte, v any, header said) (s said) {
	if code, ok := xmlCode(body); ok { // older services of Amazon
		return saidByWord(code, r.StatusCode, header)
	}
	var words bodyWords
	words.collect(v, 0)
	for _, w := range words.found {
		s |= saidByWord(w, r.StatusCode, header)
	}
	if words.conflict && !words.created && r.Header.Get("Retry-After") != "" {
		s |= saidInFlight
	}
	if isProblem(r) {
		s |= saidByProblem(v)
	}
	return s
}

func isProblem(r *http.Response) bool {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return mediaType == "application/problem+json"
}

// saidByProblem reads the members that a problem of ours has (RFC 9457 lets problems have their own).
func saidByProblem(v any) (s said) {
	o, _ := v.(map[string]any)
	switch o["retryable"] {
	case true:
		s |= saidRetry
	case false:
		s |= saidStop
	}
	if o["executed"] == "no" {
		s |= saidNothing
	}
	return s
}

// moreExactly returns the milliseconds of a problem of ours, if Retry-After is what they come to in whole seconds, rounded
// up, or is not there.
func moreExactly(seconds time.Duration, h http.Header, problem any) time.Duration {
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
