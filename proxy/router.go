package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// router finds the route of a request. Unlike ServeMux it never redirects and never answers by itself: a request that
// matches no pattern goes to the default route. A path that matches no pattern as it is written is looked up as
// lenient upstreams read it, so that "/payments/" cannot avoid what is required of "/payments". It is forwarded as it
// was written.
type router struct {
	mux       *http.ServeMux
	byPattern map[string]*routeHandler
	lenient   lenientRoutes
	rest      *routeHandler
}

func newRouter(rest *routeHandler, routes []*routeHandler) (*router, error) {
	r := &router{rest: rest}
	if len(routes) == 0 {
		return r, nil
	}
	r.mux, r.byPattern = http.NewServeMux(), map[string]*routeHandler{}
	for _, h := range routes {
		if reason := register(r.mux, h.pattern, h); reason != "" {
			return nil, fmt.Errorf("proxy: route %q: %s", h.pattern, reason)
		}
		r.byPattern[h.pattern] = h
		r.lenient.add(h)
	}
	return r, nil
}

// ServeHTTP implements http.Handler.
func (t *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if t.mux == nil {
		t.rest.ServeHTTP(w, r)
		return
	}
	exact := t.exact(r)
	found, path := t.find(r, exact)
	switch {
	case found == nil:
		t.rest.ServeHTTP(w, r)
	case found.route == exact:
		t.mux.ServeHTTP(w, r) // sets the pattern and the path values
	default:
		r.Pattern = found.route.pattern
		found.setPathValues(r, path)
		found.route.ServeHTTP(w, r)
	}
}

// routeOf returns the route of a request that is not served.
func (t *router) routeOf(r *http.Request) *routeHandler {
	if t.mux != nil {
		if found, _ := t.find(r, t.exact(r)); found != nil {
			return found.route
		}
	}
	return t.rest
}

// exact returns the route whose pattern matches the path as it is written; nil if there is none.
func (t *router) exact(r *http.Request) *routeHandler {
	found, pattern := t.mux.Handler(r)
	if route := t.byPattern[pattern]; route != nil && found == http.Handler(route) {
		return route
	}
	return nil // ServeMux would redirect
}

// find returns the route of a request, and its path as lenient upstreams read it.
//
// A route for a single path is found by that path only. A route for a subtree yields to a more specific one that
// lenient upstreams would choose. If a path has dot segments, what it matches as it is written is ignored: that is
// another path.
func (t *router) find(r *http.Request, exact *routeHandler) (*lenientRoute, []string) {
	path, dots := lenientPath(r.URL.EscapedPath())
	found := t.lenient.byRoute[exact]
	if dots {
		found = nil
	}
	if found != nil && !found.subtree {
		return found, path
	}
	for _, as := range lenientForms(path, r.URL.Path) {
		asked := &http.Request{Method: r.Method, Host: strings.ToLower(r.Host), URL: &url.URL{Path: as}}
		other := t.lenient.match(asked)
		if found == nil || other != nil && found.subtree && found.matches(asked) {
			found = other
		}
	}
	return found, path
}
