package httpsafe

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Slug names a situation in which a request is refused. It is the fragment of the problem's type and its code.
type Slug string

// Every situation in which a request is refused.
const (
	KeyMissing       Slug = "key-missing"
	KeyMalformed     Slug = "key-malformed"
	BodyUnreadable   Slug = "body-unreadable"
	BodyTimeout      Slug = "body-timeout"
	ScopeUnresolved  Slug = "scope-unresolved"
	RequestInFlight  Slug = "request-in-flight"
	BodyTooLarge     Slug = "body-too-large"
	KeyReused        Slug = "key-reused"
	KeyExpired       Slug = "key-expired"
	KeyClosed        Slug = "key-closed" // its outcome was unknown, and a person has ended it as failed
	EarlyData        Slug = "early-data"
	KeyQuota         Slug = "key-quota"
	OutcomeUnknown   Slug = "outcome-unknown"
	NotSupported     Slug = "not-supported"
	StoreUnavailable Slug = "store-unavailable"
	KeyUnknown       Slug = "key-unknown" // at a StatusHandler
)

// Problem is a refusal, before a Profile puts it into its own form. It holds nothing that the request has sent.
type Problem struct {
	Slug   Slug
	Status int
	Title  string
	Detail string
	// Type is the address of the slug's explanation on the policy page.
	Type string
	// Instance names the key that the refusal is about, by its digest; empty if there is none.
	Instance string
	// Retryable: the same request may be sent again, with the same key.
	Retryable bool
	// NewKeyRequired: this key cannot be used for this request.
	NewKeyRequired bool
	// Executed is "no", "yes" or "unknown".
	Executed string
	// RetryAfter is set if the client should wait.
	RetryAfter time.Duration
	// FirstSeen is when the key was first claimed; zero if that is not known.
	FirstSeen time.Time
	// Fields are members that only some situations have.
	Fields []ProblemField
}

// ProblemField is an additional member of a problem.
type ProblemField struct {
	Name  string
	Value any // encodes as JSON
}

// Error makes a Problem an error, so that work can refuse.
func (p *Problem) Error() string { return "httpsafe: " + string(p.Slug) }

// with returns the problem with one more member.
func (p Problem) with(name string, value any) Problem {
	p.Fields = append(p.Fields[:len(p.Fields):len(p.Fields)], ProblemField{name, value})
	return p
}

// refuse answers with the problem, in the profile's form.
func (c *config) refuse(w http.ResponseWriter, p Problem) { WriteProblem(w, c.profile, c.policyURL, p) }

// WriteProblem answers with a problem in the form that a profile has: status, body, Link, Retry-After and whatever else
// belongs to it. p.Type is set to the problem's fragment of the policy page at policyURL.
func WriteProblem(w http.ResponseWriter, profile Profile, policyURL string, p Problem) {
	p.Type = policyURL + "#" + string(p.Slug)
	if s := profile.Statuses[p.Slug]; s != 0 {
		p.Status = s
	}
	render := profile.RenderFunc
	if render == nil {
		render = ProblemJSON
	}
	contentType, body := render(p)
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
		h.Set("WWW-Authenticate", "Bearer")
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

// resultHeader is the field that says whether a request was accepted.
func (p Profile) resultHeader(accepted bool) HeaderLine {
	if accepted {
		return p.AcceptedHeader
	}
	return p.RejectedHeader
}

// ProblemJSON renders a problem as RFC 9457 has it.
func ProblemJSON(p Problem) (contentType string, body []byte) {
	o := jsonObject{}
	o.add("type", p.Type)
	o.add("title", p.Title)
	o.add("status", p.Status)
	o.add("detail", p.Detail)
	if p.Instance != "" {
		o.add("instance", p.Instance)
	}
	o.add("code", p.Slug)
	o.add("retryable", p.Retryable)
	o.add("new_key_required", p.NewKeyRequired)
	o.add("executed", p.Executed)
	if p.RetryAfter > 0 {
		o.add("retry_after_ms", p.RetryAfter.Milliseconds())
	}
	if !p.FirstSeen.IsZero() {
		o.add("first_seen", p.FirstSeen.UTC().Format(time.RFC3339))
	}
	for _, f := range p.Fields {
		o.add(f.Name, f.Value)
	}
	return "application/problem+json", o.close()
}

// jsonObject writes a JSON object whose members keep their order.
type jsonObject struct{ b []byte }

func (o *jsonObject) add(name string, value any) {
	open := byte(',')
	if len(o.b) == 0 {
		open = '{'
	}
	data, err := json.Marshal(value)
	if err != nil {
		data = []byte("null")
	}
	o.b = append(strconv.AppendQuote(append(o.b, open), name), ':')
	o.b = append(o.b, data...)
}

func (o *jsonObject) close() []byte {
	if len(o.b) == 0 {
		o.b = append(o.b, '{')
	}
	return append(o.b, '}', '\n')
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
