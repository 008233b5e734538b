package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// Route says how the requests that match a pattern are treated.
type Route struct {
	// Pattern as net/http's ServeMux has them: "POST /payments/{id}".
	Pattern string
	// Unguarded passes requests through as if they had no key.
	Unguarded bool
	// Policy differs from the Guard's in the fields that are set.
	Policy retrysafe.Policy
	// HTTP is how keys and answers look. BufferFlushes is the proxy's to set: see Stream.
	HTTP httpsafe.Options
	// Stream passes answers on as they come, as event streams always are; such an answer is not replayable. Default:
	// answers are fetched whole, up to Policy.MaxResult, before they are passed on.
	Stream bool
	// UpstreamKey is the header in which the upstream gets a key derived from the client's, the same on every attempt:
	// see retrysafe.Key.Child. If it is the header in which the client's key came, it replaces that. Default: none.
	UpstreamKey string
	// AttemptHeader is the header in which the upstream gets the number of the attempt, from 1. Default: none.
	AttemptHeader string
	// BodyTimeout bounds how long the body of a request with a key may take to arrive. Default 30 s; negative: none.
	BodyTimeout time.Duration
}

const defaultBodyTimeout = 30 * time.Second

// routeHandler serves one route.
type routeHandler struct {
	pattern     string
	guarded     http.Handler
	forward     *forwarder
	problems    problemWriter
	reportFunc  func(Report)
	bodyTimeout time.Duration

	methods  []string
	headers  []string // canonical names that may carry a key
	always   bool     // requests are looked at even if they carry none of them
	noGuards bool
}

func newRouteHandler(g *retrysafe.Guard, scope httpsafe.ScopeFunc, r Route, common sharing, report func(Report)) (*routeHandler, error) {
	r.HTTP.BufferFlushes = !r.Stream
	if err := r.HTTP.Validate(); err != nil {
		return nil, fmt.Errorf("proxy: route %q: %w", r.Pattern, err)
	}
	own := g.With(r.Policy)
	h := &routeHandler{
		pattern:     r.Pattern,
		reportFunc:  report,
		bodyTimeout: orElse(r.BodyTimeout, defaultBodyTimeout),
		noGuards:    r.Unguarded,
		problems:    problemWriter{policyURL: r.HTTP.PolicyURL, profile: r.HTTP.Profile},
	}
	common.problems = h.problems
	h.forward = newForwarder(common, r, own.Policy())
	h.guarded = httpsafe.Middleware(own, scope, r.HTTP)(h.forward)
	h.lookFor(r.HTTP)
	return h, nil
}

// lookFor notes which requests can have a key.
func (h *routeHandler) lookFor(o httpsafe.Options) {
	profile := o.Profile
	if profile.Name == "" {
		profile = httpsafe.IETF()
	}
	h.methods = o.Methods
	if h.methods == nil {
		h.methods = profile.Methods
	}
	names := slices.Concat([]string{o.Header, profile.Header}, o.Aliases, profile.Aliases)
	source, inHeader := o.KeySource.(httpsafe.HeaderKey)
	names = append(append(names, source.Header), source.Aliases...)
	for _, name := range names {
		if name != "" {
			h.headers = append(h.headers, http.CanonicalHeaderKey(name))
		}
	}
	inBody := profile.BodyField != "" || profile.QueryField != ""
	h.always = o.Required || profile.Required || o.KeySource != nil && !inHeader || o.KeySource == nil && inBody
}

// ServeHTTP implements http.Handler.
func (h *routeHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case h.noGuards:
		h.forward.ServeHTTP(w, r)
	case !h.mayHaveKey(r):
		h.guarded.ServeHTTP(w, r)
	default:
		h.serveKeyed(w, r)
	}
}

func (h *routeHandler) mayHaveKey(r *http.Request) bool {
	if !slices.Contains(h.methods, r.Method) {
		return false
	}
	for _, name := range h.headers {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return h.always
}

// serveKeyed serves a request that seems to have a key, and reports what became of it.
func (h *routeHandler) serveKeyed(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	if h.bodyTimeout > 0 && r.Body != http.NoBody {
		// net/http itself takes the deadline away when the body has ended. A connection without deadlines has none.
		_ = http.NewResponseController(w).SetReadDeadline(began.Add(h.bodyTimeout))
	}
	s := &story{Context: r.Context(), noted: statusWriter{ResponseWriter: w}}
	defer func() { // after a panic too, which is how a connection is cut
		if told, ok := s.report(r, h.pattern, began); ok && h.reportFunc != nil {
			h.reportFunc(told)
		}
	}()
	h.guarded.ServeHTTP(&s.noted, r.WithContext(s))
}
