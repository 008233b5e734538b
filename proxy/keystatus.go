package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// keyStatus answers questions for keys at KeyStatusPath. Each route has its own rules; a question names its route by the
// method and path of a request, which is routed as that request is.
type keyStatus struct {
	router  *router
	byRoute map[*routeHandler]http.Handler
	// unnamed answers questions that name no route: the first route's rules hold, if all of byRoute find the same record
	// for a key. Otherwise it is nil.
	unnamed *routeHandler
	any     *routeHandler // one of byRoute, for refusals
}

// newKeyStatus returns what answers for the routes that have KeyStatus, in their order; nil if none has.
func newKeyStatus(routes []*routeHandler, scope httpsafe.ScopeFunc, rest *router) *keyStatus {
	k := &keyStatus{router: rest, byRoute: map[*routeHandler]http.Handler{}}
	kinds := map[string]bool{}
	for _, h := range routes {
		if !h.keyStatus {
			continue
		}
		o := h.options
		o.MemoryFunc, o.QuotaFunc = h.takeMemory, nil
		kind := fmt.Sprint(o.ScopeVersion, " ", o.KeySource == nil, " ", o.Profile.KeySyntax)
		if o.Profile.ScopeRoute {
			o.Route = cmp.Or(o.Route, h.pattern)
			kind += " " + h.pattern
		}
		if kinds[kind] = true; k.unnamed == nil {
			k.unnamed = h
		}
		k.byRoute[h], k.any = httpsafe.KeyStatusHandler(h.guard, scope, o), h
	}
	switch {
	case len(kinds) == 0:
		return nil
	case len(kinds) > 1:
		k.unnamed = nil
	}
	return k
}

// checkKeyStatus returns an error if no client can ask for the keys of the route.
func (r Route) checkKeyStatus() error {
	switch r.HTTP.KeySource.(type) {
	case httpsafe.NaturalKey, httpsafe.BodyHash:
		if r.KeyStatus {
			return errors.New("KeyStatus needs keys that clients choose, and those of this route are made from its requests")
		}
	}
	return nil
}

// isKeyStatus reports whether a request asks for a key.
func isKeyStatus(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, KeyStatusPath+"/") }

// ServeHTTP implements http.Handler.
func (k *keyStatus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hold := w.(*holder) // set by Proxy.serveBounded
	route := k.unnamed
	if about := httpsafe.AskedAbout(r, ""); about != nil {
		route = k.router.routeOf(about)
	} else if r.URL.Query().Get("route") != "" {
		route = nil
	}
	handler := k.byRoute[route]
	if handler == nil {
		known := k.any.rules.Problems
		k.any.options.WriteProblem(w, known[slices.IndexFunc(known, func(p httpsafe.Problem) bool {
			return p.Slug == httpsafe.RouteMissing
		})])
		return
	}
	if route.auth.refuse(hold, r, &route.options) != nil {
		return
	}
	asked := r.WithContext(&logEntry{Context: r.Context(), holder: hold, route: route})
	asked.SetPathValue("key", strings.TrimPrefix(r.URL.Path, KeyStatusPath+"/")) // a slash in it may not be encoded
	handler.ServeHTTP(w, asked)
}
