package proxy

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

const wellKnown = "/.well-known/idempotency-"

// published returns a route's options as they are in force: with the addresses of the proxy's own pages, and how
// requests are sent.
func (o Options) published(r Route, g *retrysafe.Guard) httpsafe.Options {
	h := r.HTTP.WithDefaults()
	h.FingerprintVersion = r.version(g)
	h.BufferFlushes = !r.Stream
	h.PolicyURL = o.PublicURL + PolicyPath
	h.StatusPath = StatusPath
	if h.Profile.ScopeRoute {
		h.StatusPath = routeStatusPath
	}
	if h.ScopeVersion != "" {
		h.StatusPath += "/version/" + url.PathEscape(h.ScopeVersion)
	}
	return h
}

// newPages returns the pages about rules and keys. Those about the keys of a caller are authorized.
func newPages(
	g *retrysafe.Guard, scope httpsafe.ScopeFunc, o Options, authorized func(http.Handler) http.Handler,
) *http.ServeMux {
	mux := http.NewServeMux()
	var routes []httpsafe.Rules
	mounted, inboxes := map[string]bool{}, map[string]httpsafe.Inbox{}
	for _, r := range append(o.Routes[:len(o.Routes):len(o.Routes)], o.Default) {
		if r.HTTP.Inbox != nil { // which one does not matter: all know the requests of each other
			inboxes[o.published(r, g).StatusPath] = r.HTTP.Inbox
		}
	}
	for _, r := range append(o.Routes[:len(o.Routes):len(o.Routes)], o.Default) {
		h := o.published(r, g)
		if r.enforces() {
			name := cmp.Or(r.Pattern, "everything else")
			routes = append(routes, h.Rules(name, g.With(r.policy()).Policy(), Problems()...))
		}
		if !mounted[h.StatusPath] {
			h.Inbox = inboxes[h.StatusPath]
			mux.Handle("GET "+h.StatusPath+"/{digest}", authorized(httpsafe.StatusHandler(g, scope, h)))
			mounted[h.StatusPath] = true
		}
	}
	mux.Handle("GET "+PolicyPath, httpsafe.PolicyPage(routes...))
	return mux
}

// servePage answers a request for one of the proxy's pages. It reports whether it was one.
func (p *generation) servePage(w http.ResponseWriter, r *http.Request) bool {
	page, pattern := p.pages.Handler(r)
	if pattern == "" {
		return false
	}
	page.ServeHTTP(w, r)
	return true
}
