package httpsafe

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// RoutePolicy is one guarded route, for PolicyPage.
type RoutePolicy struct {
	// Pattern of the route, as people should read it.
	Pattern string
	Guard   *retrysafe.Guard
	Options Options
	// Problems that the route may answer with beside the middleware's own.
	Problems []Problem
}

// PolicyPage serves the published policy that clients rely on: for each route the key's header and form, methods,
// limits, retention, which statuses are kept, and an explanation of every problem type under its own fragment. It is
// HTML or JSON, as the request's Accept prefers. Serve it where Options.PolicyURL points:
//
//	mux.Handle("GET /.well-known/idempotency-policy", httpsafe.PolicyPage(routes...))
func PolicyPage(routes ...RoutePolicy) http.Handler {
	page := policyPage{Routes: []routePage{}, Problems: problemPages(routes)}
	for _, r := range routes {
		page.Routes = append(page.Routes, newRoutePage(r))
	}
	asJSON, err := json.MarshalIndent(page, "", "  ")
	if err != nil { // strings, numbers and booleans only
		panic(err)
	}
	var asHTML bytes.Buffer
	if err := newPolicyTemplate().Execute(&asHTML, page); err != nil {
		panic(err)
	}
	return &policyHandler{json: append(asJSON, '\n'), html: asHTML.Bytes()}
}

//go:embed policypage.html
var policyTemplate string

func newPolicyTemplate() *template.Template {
	words := template.FuncMap{"duration": durationInWords, "size": sizeInWords}
	return template.Must(template.New("policy").Funcs(words).Parse(policyTemplate))
}

// unit has a size and a name. It serves for amounts from least on.
type unit struct {
	size, least int64
	name        string
}

func durationInWords(seconds int64) string {
	return inUnits(seconds, unit{86400, 2 * 86400, "d"}, unit{3600, 3600, "h"}, unit{60, 60, "min"}, unit{1, 0, "s"})
}

func sizeInWords(bytes int64) string {
	return inUnits(bytes, unit{1 << 20, 1 << 20, "MiB"}, unit{1 << 10, 1 << 10, "KiB"}, unit{1, 0, "bytes"})
}

// inUnits returns n in the first unit that it is a multiple of.
func inUnits(n int64, units ...unit) string {
	for _, u := range units {
		if n >= u.least && n%u.size == 0 {
			return fmt.Sprint(n/u.size, " ", u.name)
		}
	}
	return fmt.Sprint(n)
}

type policyHandler struct{ json, html []byte }

// ServeHTTP implements http.Handler.
func (p *policyHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, contentType := p.html, "text/html; charset=utf-8"
	accept := r.Header.Values("Accept")
	if quality(accept, "application", "json") > quality(accept, "text", "html") {
		body, contentType = p.json, jsonType
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// quality is what an Accept header gives a media type: that of the most specific range that matches.
func quality(accept []string, kind, sub string) float64 {
	best, specific := 0.0, 0
	if len(accept) == 0 {
		return 1
	}
	for _, line := range accept {
		for element := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(element, ";")
			if s := specificity(strings.ToLower(strings.TrimSpace(media)), kind, sub); s > specific {
				best, specific = qValue(params), s
			}
		}
	}
	return best
}

func specificity(media, kind, sub string) int {
	switch media {
	case kind + "/" + sub:
		return 3
	case kind + "/*":
		return 2
	case "*/*":
		return 1
	}
	return 0
}

func qValue(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "q") {
			if q, err := strconv.ParseFloat(value, 64); err == nil && q >= 0 && q <= 1 {
				return q
			}
			return 0
		}
	}
	return 1
}

type policyPage struct {
	Routes   []routePage   `json:"routes"`
	Problems []problemPage `json:"problems"`
}

type routePage struct {
	Route             string   `json:"route"`
	Profile           string   `json:"profile"`
	Key               string   `json:"key"`
	KeySyntax         string   `json:"key_syntax"`
	Required          bool     `json:"required"`
	Methods           []string `json:"methods"`
	KeyScope          string   `json:"key_scope"`
	Fingerprint       string   `json:"fingerprint"`
	MaxRequestBytes   int64    `json:"max_request_bytes"`
	MaxResponseBytes  int64    `json:"max_response_bytes"`
	ReplaySeconds     int64    `json:"replay_seconds"`
	KeySeconds        int64    `json:"key_seconds"`
	InFlight          string   `json:"in_flight"`
	StatusesStored    string   `json:"statuses_stored"`
	StatusesReleased  string   `json:"statuses_released"`
	StatusesAmbiguous string   `json:"statuses_ambiguous"`
	AmbiguousPolicy   string   `json:"ambiguous_policy"`
	Marker            string   `json:"marker,omitempty"`
}

type problemPage struct {
	Slug           Slug   `json:"code"`
	Type           string `json:"type"`
	Status         int    `json:"status"`
	Title          string `json:"title"`
	Detail         string `json:"detail"`
	Retryable      bool   `json:"retryable"`
	NewKeyRequired bool   `json:"new_key_required"`
	Executed       string `json:"executed"`
	Runbook        string `json:"runbook,omitempty"` // for those who run the API
}

// runbookURL tells operators how to find out what happened, and to resolve the key.
const runbookURL = "https://github.com/retrysafe/retrysafe/blob/main/docs/outcome-unknown.md"

// runbook returns the page for operators about a problem after which the key stays abandoned; "" for others.
func runbook(s Slug) string {
	switch s {
	case OutcomeUnknown, "upstream-failed", "upstream-timeout": // the latter two are package proxy's
		return runbookURL
	}
	return ""
}

func newRoutePage(r RoutePolicy) routePage {
	o, policy := r.Options.withDefaults(), r.Guard.Policy()
	return routePage{
		Route:             r.Pattern,
		Profile:           o.Profile.Name,
		Key:               carrier(o),
		KeySyntax:         o.KeySyntax.String(),
		Required:          o.Required,
		Methods:           o.Methods,
		KeyScope:          keyScope(o),
		Fingerprint:       o.Fingerprint.String(),
		MaxRequestBytes:   o.MaxRequestBody,
		MaxResponseBytes:  int64(policy.MaxResult),
		ReplaySeconds:     int64(policy.Retention.Replay / time.Second),
		KeySeconds:        int64(policy.Retention.Key / time.Second),
		InFlight:          inFlight(o, policy),
		StatusesStored:    statuses(o.Class, ClassStore),
		StatusesReleased:  statuses(o.Class, ClassRelease),
		StatusesAmbiguous: statuses(o.Class, ClassAmbiguous),
		AmbiguousPolicy:   ambiguous(o, policy),
		Marker:            o.Marker,
	}
}

// carrier says where the key is.
func carrier(o Options) string {
	switch k := o.KeySource.(type) {
	case nil:
		return "header " + strings.Join(append([]string{o.Header}, o.Aliases...), " or ")
	case KeyInBody:
		return strings.TrimSpace("body " + k.Pointer + " query " + k.Query)
	case NaturalKey:
		return "made from the request: " + strings.Join(append(k.PathValues, k.Fields...), ", ")
	case BodyHash:
		return "made from the body"
	}
	return fmt.Sprintf("%T", o.KeySource)
}

func keyScope(o Options) string {
	if o.ScopeRoute {
		return "caller and route"
	}
	return "caller"
}

func inFlight(o Options, p retrysafe.Policy) string {
	text := "refused"
	if o.InFlightStatus {
		text = "202 with the address of the status"
	}
	if p.OnInFlight != retrysafe.Reject() {
		text = p.OnInFlight.String() + ", then " + text
	}
	return text
}

func ambiguous(o Options, p retrysafe.Policy) string {
	does := ambiguousPolicy(o, p)
	text := [...]string{"", "stored", "released", "outcome unknown"}[does]
	if does == AmbiguousUnknown && resumes(p) {
		text += ", a retry resumes it"
	}
	return text
}

// statuses lists the statuses of a class, as ranges.
func statuses(f ClassFunc, class Class) string {
	var ranges []string
	for from := 200; from < 600; from++ {
		if f(from) != class {
			continue
		}
		to := from
		for to < 599 && f(to+1) == class {
			to++
		}
		text := strconv.Itoa(from)
		if to > from {
			text += "-" + strconv.Itoa(to)
		}
		ranges, from = append(ranges, text), to
	}
	return strings.Join(ranges, ", ")
}

// problemPages explains every problem, in the words of the first route's profile.
func problemPages(routes []RoutePolicy) []problemPage {
	o := Options{}
	if len(routes) > 0 {
		o = routes[0].Options
	}
	o = o.withDefaults()
	var pages []problemPage
	for _, p := range allProblems(routes) {
		if s := o.Profile.Statuses[p.Slug]; s != 0 {
			p.Status = s
		}
		pages = append(pages, problemPage{p.Slug, o.PolicyURL + "#" + string(p.Slug), p.Status, p.Title, p.Detail, p.Retryable, p.NewKeyRequired, p.Executed, runbook(p.Slug)})
	}
	return pages
}

// allProblems returns the middleware's problems and then those that routes have beside them, each once.
func allProblems(routes []RoutePolicy) []Problem {
	all := Problems()
	for _, r := range routes {
		for _, p := range r.Problems {
			if !slices.ContainsFunc(all, func(known Problem) bool { return known.Slug == p.Slug }) {
				all = append(all, p)
			}
		}
	}
	return all
}
