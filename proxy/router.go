package proxy

import (
	"fmt"
	"net/http"
)

// router finds a request's route. Unlike ServeMux it never redirects and never answers by itself: what no pattern
// matches goes to the default route, and a path that ServeMux would clean is the upstream's to judge.
type router struct {
	mux       *http.ServeMux
	byPattern map[string]*routeHandler
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
	}
	return r, nil
}

// ServeHTTP implements http.Handler.
func (t *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if t.mux == nil {
		t.rest.ServeHTTP(w, r)
		return
	}
	found, pattern := t.mux.Handler(r)
	route, matched := t.byPattern[pattern]
	switch {
	case !matched:
		t.rest.ServeHTTP(w, r)
	case found == http.Handler(route):
		t.mux.ServeHTTP(w, r) // which sets the pattern and the path values
	default: // a redirect to a path that has this route: protected as if the client had followed it
		r.Pattern = pattern
		route.ServeHTTP(w, r)
	}
}
