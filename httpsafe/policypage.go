package httpsafe

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// PolicyPage serves the published policy that clients rely on: the Rules of each route, and an explanation of every
// problem type under its own fragment. It is HTML or JSON, as the request's Accept prefers. Serve it where
// [Options.PolicyURL] points:
//
//	rules := options.Rules("POST /payments", guard.Policy())
//	mux.Handle("GET /.well-known/idempotency-policy", httpsafe.PolicyPage(rules))
func PolicyPage(routes ...Rules) http.Handler {
	page := policyPage{Routes: append([]Rules{}, routes...), Problems: problemPages(routes)}
	asJSON, err := json.MarshalIndent(page, "", "  ")
	if err != nil { // strings, numbers and booleans only
		panic(err)
	}
	return &policyHandler{json: append(asJSON, '\n'), html: page.html()}
}

type policyPage struct {
	Routes   []Rules       `json:"routes"`
	Problems []problemPage `json:"problems"`
}

type problemPage struct {
	Problem
	Runbook string `json:"runbook,omitempty"` // for the operators of the API
}

// problemPages explains the problems of all routes. Each appears once, with the texts of the first route that has it.
func problemPages(routes []Rules) (pages []problemPage) {
	if len(routes) == 0 {
		routes = []Rules{Options{}.Rules("", retrysafe.Policy{})}
	}
	for _, r := range routes {
		for _, p := range r.Problems {
			if !slices.ContainsFunc(pages, func(known problemPage) bool { return known.Slug == p.Slug }) {
				pages = append(pages, problemPage{p, runbook(p.Slug)})
			}
		}
	}
	return pages
}

// runbook returns the page for operators about a problem after which the key stays abandoned; "" for others.
func runbook(s Slug) string {
	switch s {
	case OutcomeUnknown, "upstream-failed", "upstream-timeout": // the latter two are package proxy's
		return "https://github.com/retrysafe/retrysafe/blob/main/docs/outcome-unknown.md"
	}
	return ""
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

// quality returns the quality that an Accept header gives a media type: that of the most specific range that matches.
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
