package httpsafe

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpkey"
)

// Slug names a reason for refusing a request. It is the fragment of the problem's type, and its code.
type Slug string

// Every situation in which a request is refused.
const (
	KeyMissing       Slug = "key-missing"
	KeyMalformed     Slug = "key-malformed"
	BodyUnreadable   Slug = "body-unreadable"
	BodyTimeout      Slug = "body-timeout"
	ScopeUnresolved  Slug = "scope-unresolved"
	SignatureInvalid Slug = "signature-invalid" // answered because of Options.VerifyFunc
	RequestInFlight  Slug = "request-in-flight"
	BodyTooLarge     Slug = "body-too-large"
	KeyReused        Slug = "key-reused"
	KeyExpired       Slug = "key-expired"
	KeyClosed        Slug = "key-closed" // its outcome was unknown, and an operator has resolved it as not executed
	EarlyData        Slug = "early-data"
	KeyQuota         Slug = "key-quota"
	OutcomeUnknown   Slug = "outcome-unknown"
	NotSupported     Slug = "not-supported"
	StoreUnavailable Slug = "store-unavailable"
	KeyUnknown       Slug = "key-unknown"     // answered by a StatusHandler
	RouteMissing     Slug = "route-missing"   // answered by a KeyStatusHandler
	AlreadyCreated   Slug = "already-created" // answered under Profile.RefuseReplays
)

// Problem is a refusal, before a Profile puts it into its own form. It holds nothing that the request has sent. Its
// JSON is that of RFC 9457, without the members that [ProblemJSON] adds where they are known.
type Problem struct {
	// Type is the address of the slug's explanation on the policy page.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Instance names the key that the refusal is about, by its digest; empty if there is none.
	Instance string `json:"instance,omitempty"`
	Slug     Slug   `json:"code"`
	// Retryable: the same request may be sent again, with the same key.
	Retryable bool `json:"retryable"`
	// NewKeyRequired: this key cannot be used for this request.
	NewKeyRequired bool `json:"new_key_required"`
	// Executed is "no", "yes" or "unknown".
	Executed string `json:"executed"`
	// RetryAfter is set if the client should wait.
	RetryAfter time.Duration `json:"-"`
	// FirstSeen is when the key was first claimed; zero if that is not known.
	FirstSeen time.Time `json:"-"`
	// Fields are members that only some situations have.
	Fields []ProblemField `json:"-"`
}

// ProblemField is an additional member of a problem. Value is anything that encodes as JSON.
type ProblemField struct {
	Name  string
	Value any
}

// Error makes a Problem an error, so that guarded work can refuse.
func (p *Problem) Error() string { return "httpsafe: " + string(p.Slug) }

// with returns the problem with one more member.
func (p Problem) with(name string, value any) Problem {
	p.Fields = append(p.Fields[:len(p.Fields):len(p.Fields)], ProblemField{name, value})
	return p
}

// ProblemNoter is implemented by an http.ResponseWriter that is to know which problem an answer is, for example to log
// it.
type ProblemNoter interface {
	// NoteProblem is called before the problem is written.
	NoteProblem(Problem)
}

// WriteProblem answers with a problem as the middleware does: status, body, Link, Retry-After and the headers of the
// profile. p.Type is set to the problem's fragment of the policy page.
func (o Options) WriteProblem(w http.ResponseWriter, p Problem) {
	o = o.WithDefaults()
	o.writeProblem(w, p, nil)
}

// writeProblem is WriteProblem for options with their defaults. asked is the body of the request, for
// Profile.EchoFields; nil if it was not read. Options take two kilobytes: a function that passed a copy would have room
// for it on its stack, also while its request waits.
func (o *Options) writeProblem(w http.ResponseWriter, p Problem, asked []byte) {
	profile := o.Profile
	p = p.under(profile, o.PolicyURL)
	if noter, ok := w.(ProblemNoter); ok {
		noter.NoteProblem(p)
	}
	contentType, body := profile.RenderFunc(p)
	if len(asked) > 0 {
		body = profile.echoInto(body, asked)
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Language", "en")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Add("Link", "<"+p.Type+`>; rel="describedby"; type="text/html"`)
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(wholeSeconds(p.RetryAfter)))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", challenge(p.Slug))
	}
	if profile.RetryHeader != "" {
		h.Set(profile.RetryHeader, strconv.FormatBool(p.Retryable))
	}
	if f := profile.resultHeader(p.Status >= 500 && p.Executed != "no"); f.Name != "" {
		h.Set(f.Name, f.Value)
	}
	w.WriteHeader(p.Status)
	w.Write(body)
}

// challenge returns how a client authenticates after a 401.
func challenge(s Slug) string {
	if s == SignatureInvalid {
		return "Webhook-Signature" // as package webhook has it
	}
	return "Bearer"
}

// echoInto returns the body of a refusal with the members of EchoFields that the body of the request has.
func (p Profile) echoInto(body, asked []byte) []byte {
	for _, field := range p.EchoFields {
		place := orAsItWas(body)(fingerprint.SetJSON(body, field, []byte("null")))
		filled := orAsItWas(place)(fingerprint.ReplaceJSON(place, asked, []string{field}))
		if !bytes.Equal(filled, place) {
			body = filled
		}
	}
	return body
}

// resultHeader returns the field that says whether a request was accepted.
func (p Profile) resultHeader(accepted bool) httpkey.HeaderLine {
	if accepted {
		return p.AcceptedHeader
	}
	return p.RejectedHeader
}

// under returns the problem with the type and the status that it has under a profile.
func (p Problem) under(profile Profile, policyURL string) Problem {
	p.Type = policyURL + "#" + string(p.Slug)
	if s := profile.Statuses[p.Slug]; s != 0 {
		p.Status = s
	}
	return p
}

// ProblemJSON renders a problem as problem details (RFC 9457).
func ProblemJSON(p Problem) (contentType string, body []byte) {
	body = bytes.TrimSuffix(encoded(p), []byte("}"))
	var more []ProblemField
	if p.RetryAfter > 0 {
		more = append(more, ProblemField{"retry_after_ms", p.RetryAfter.Milliseconds()})
	}
	if !p.FirstSeen.IsZero() {
		more = append(more, ProblemField{"first_seen", firstSeen(&p)})
	}
	for _, f := range append(more, p.Fields...) {
		body = append(append(strconv.AppendQuote(append(body, ','), f.Name), ':'), encoded(f.Value)...)
	}
	return "application/problem+json", append(body, "}\n"...)
}

func firstSeen(p *Problem) string { return p.FirstSeen.UTC().Format(time.RFC3339) }

const jsonType = "application/json"

// encoded returns a value as JSON: null if it cannot be encoded.
func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return text
}

// encodedLine returns a value as JSON, with a line break at its end.
func encodedLine(v any) []byte { return append(encoded(v), '\n') }

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
