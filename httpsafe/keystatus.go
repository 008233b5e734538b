package httpsafe

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// KeyStatusHandler answers GET and HEAD requests of clients that ask what became of their key without sending its request
// again, as after a crash. The key is in the path, percent-encoded, as the header or the member of the body would have it,
// with or without the quotes of a structured-field string. The answer is that of a [StatusHandler], and like that it has no
// effect on the key, and "result" in the query asks for the response itself.
//
//	mux.Handle("/.well-known/idempotency/{key...}", httpsafe.KeyStatusHandler(guard, scope, options))
//
// Guard, scope and options are those of the Middleware. A caller asks only for keys of its own: the key of another caller
// is answered like one that was never used, with 404. Other methods get 405.
//
// If keys are separate on each route (Profile.ScopeRoute), the query "route" names it, as method and path of the request
// that was sent with the key: "?route=POST%20/orders". The path is that of the pattern if http.ServeMux matched one. With
// Options.Route, only the method counts, and it may be left out if Options.Route begins with it.
//
// The router must have set the path value "key", as http.ServeMux does. KeyStatusHandler panics if scope is nil, if
// o.Validate returns an error, or if no client can know a key, because its KeySource is a [NaturalKey] or a [BodyHash].
func KeyStatusHandler(g *retrysafe.Guard, scope ScopeFunc, o Options) http.Handler {
	c := checkedConfig("KeyStatusHandler", g, scope, o)
	if !c.clientsKnowKeys() {
		panic("httpsafe: KeyStatusHandler: keys that are made from the request are known to no client")
	}
	return &keyStatusHandler{c}
}

// clientsKnowKeys reports whether keys are chosen by clients, and not made from the request.
func (c *config) clientsKnowKeys() bool {
	switch c.KeySource.(type) {
	case NaturalKey, BodyHash:
		return false
	}
	return true
}

type keyStatusHandler struct{ *config }

// ServeHTTP implements http.Handler.
func (s *keyStatusHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, s.ask) }

// ask returns what is known of the key in the path. Whether a key is unknown or another caller's cannot be told from the
// answer, nor from the time that it takes: the store is asked for a key of this caller.
func (s *keyStatusHandler) ask(r *http.Request) (a known, p *Problem) {
	about := AskedAbout(r, s.Route)
	if about == nil && s.Profile.ScopeRoute {
		missing := rejection(RouteMissing)
		return a, &missing
	}
	if about == nil {
		about = r
	}
	id, err := s.parseAsked(r.PathValue("key"))
	if err != nil {
		malformed := s.keyMalformed(err)
		return a, &malformed
	}
	scope, err := s.scopeOf(about)
	if err != nil {
		return a, scopeUnresolved(err)
	}
	k := retrysafe.Key{Scope: scope, ID: id}
	if err := k.Validate(); err != nil {
		return a, scopeUnresolved(err)
	}
	a.Advice = s.guard.ExplainKey(r.Context(), k.Digest())
	if a.waiting = s.waiting(r.Context(), &a.Advice, k.Digest()); a.waiting != nil {
		return a, nil
	}
	if a.Situation == retrysafe.SituationKeyNotFound && s.isTooOldKey(id) {
		a.Advice = retrysafe.SituationKeyTooOld.Advice()
	}
	return a, withoutRecord(a.Advice)
}

// parseAsked reads a key as the request that was sent with it has it. A key from a header may be without its quotes.
func (c *config) parseAsked(text string) (string, error) {
	syntax := c.Profile.KeySyntax
	if c.KeySource == nil {
		if key, err := syntax.ParseHeader([]string{text}); err == nil {
			return key, nil
		}
	}
	return syntax.Parse(text)
}

// AskedAbout returns the request whose method and path the query "route" of r names, or else those of route, as a request
// of the same caller, to find its route and its scope by. It returns nil if neither names both.
func AskedAbout(r *http.Request, route string) *http.Request {
	if asked := r.URL.Query().Get("route"); asked != "" {
		route = asked
	}
	method, target, ok := strings.Cut(route, " ")
	if !ok || target == "" {
		return nil
	}
	u, err := url.ParseRequestURI(target)
	if err != nil { // a pattern with a host
		u = &url.URL{Path: target}
	}
	about := r.WithContext(r.Context())
	about.Method, about.URL, about.Pattern = method, u, ""
	return about
}
