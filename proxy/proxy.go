// Package proxy puts idempotency keys in front of any HTTP API: a reverse proxy that runs each request with a key at most
// once, and answers every retry with the same response.
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	handler, err := proxy.New(guard, httpsafe.ScopeCredential(), proxy.Options{Upstream: proxy.Upstream{URL: upstream}})
//
// What comes without a key passes through as it is, streamed both ways. What comes with one is read whole, claimed, sent
// once, and its answer kept before the client gets it. The proxy never sends a request with an effect again, not even
// into a new connection when the old one has died: whether to try again is the client's to decide, with the same key.
//
// The upstream gets the client's key field as it came, because the client addressed it; with Route.UpstreamKey it gets
// a key derived from it, which is the same on every attempt.
//
// # Design
//
//   - 502, 503, 504 and 408 may come from a gateway in between, also after the API got the request. So they are
//     ambiguous in every profile, unless the answer says that nothing happened. TrustUnavailable is for upstreams
//     without a gateway in front.
//   - HTTP/2 refusals are recognised by error texts, because net/http has no type for REFUSED_STREAM and GOAWAY once a
//     body was sent. The texts are compared from their beginning, and a test sends the frames. A text that changes
//     means an unknown outcome, never a free key.
//   - A rerun carries the key of the first request. The fingerprint's version names the header of UpstreamKey; an
//     abandoned request that was first sent with another header stays unknown.
//   - A replay is not authentication. Only the upstream knows that a credential was revoked, and a replay does not ask
//     it, so AuthURL is asked first. It is off by default, because every request with a key then costs another request.
//     Requests without a key are not checked: the upstream sees them.
//   - If no pattern matches exactly, routes are matched as lenient upstreams read paths, so that a trailing slash does
//     not get around a requirement. The path is neither cleaned nor refused, because the upstream may treat such paths
//     as different.
//   - Requests that wait for their own client are ended first when places or memory run out. A flood of slow clients
//     thereby ends itself, nothing has to recognise attackers, and work is never ended.
package proxy

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// Options of a Proxy.
type Options struct {
	// Upstream is where requests go. Its URL is required.
	Upstream Upstream
	// Default treats requests that no Route matches. Its Pattern is not looked at.
	Default Route
	// Routes for requests that match their patterns.
	Routes []Route
	// AuthURL is asked whether the caller may call, before a key is claimed or a stored answer is replayed: GET with the
	// header of the request, and X-Forwarded-Method, X-Forwarded-Uri and X-Forwarded-Host. After a 2xx the request goes on;
	// 401 and 403 are passed on to the client; anything else within 5 s, or nothing, is 503. Requests without a key are not
	// asked about, because the upstream sees their credentials, unless the key would be in their body. http or https.
	// Default: nothing is asked, and a retry with a revoked credential still gets its replay.
	AuthURL *url.URL
	// Limits bound what strangers can make the proxy hold.
	Limits Limits
	// PublicURL is how clients reach the proxy, such as "https://api.example.com". The types of problems are links to
	// its policy page. Default: they are relative.
	PublicURL string
	// Observer is told what became of each request with a key, after it was answered. Default: none.
	Observer Observer
	// ErrorLog gets what net/http's ReverseProxy has to say of broken connections. Default: nothing is logged.
	ErrorLog *log.Logger
	// Transport sends to the upstream. Default: one that fits Upstream. Every request with an effect is sent by it at
	// most once in any case.
	Transport http.RoundTripper
}

// Paths that the proxy answers itself, to GET and HEAD.
const (
	// PolicyPath is where clients and people find the rules: see httpsafe.PolicyPage.
	PolicyPath = "/.well-known/idempotency-policy"
	// StatusPath is where a client finds the status of its keys, by their digests: see httpsafe.StatusHandler.
	StatusPath = "/.well-known/idempotency-status"
	// routeStatusPath is that of keys whose scope holds the route.
	routeStatusPath = StatusPath + "/route"
)

// Proxy is the handler. It is safe for concurrent use.
type Proxy struct {
	router    *router
	pages     *http.ServeMux // PolicyPath, StatusPath
	transport http.RoundTripper
	auth      *authorizer
	options   httpsafe.Options
	admission *admission
}

// New returns a proxy whose keys are kept by g and belong to the callers that scope names. It returns an error if the
// options are invalid: an unusable URL, a pattern that conflicts with another, faults in a route's HTTP options, or limits
// of a route that do not fit into Limits.Memory.
func New(g *retrysafe.Guard, scope httpsafe.ScopeFunc, o Options) (*Proxy, error) {
	if err := o.Upstream.validate(); err != nil {
		return nil, err
	}
	p := &Proxy{
		transport: o.Transport,
		admission: newAdmission(o.Limits.withDefaults()),
	}
	if p.transport == nil {
		p.transport = newTransport(o.Upstream)
	}
	if o.ErrorLog == nil {
		o.ErrorLog = log.New(io.Discard, "", 0)
	}
	var err error
	if p.auth, err = newAuthorizer(o); err != nil {
		return nil, err
	}
	return p, p.mount(g.WithObserver(retrysafe.ObserverFunc(logEvents)), scope, o)
}

// mount builds the routes and the pages that tell about them.
func (p *Proxy) mount(g *retrysafe.Guard, scope httpsafe.ScopeFunc, o Options) error {
	common := sharing{
		upstream: o.Upstream, transport: p.transport, buffers: &copyBuffers{}, errorLog: o.ErrorLog, auth: p.auth, admission: p.admission,
	}
	o.Default.Pattern = ""
	rest, err := newRouteHandler(g, scope, o.Default, o.published(o.Default), common, o.Observer)
	if err != nil {
		return err
	}
	routes := make([]*routeHandler, len(o.Routes))
	for i, r := range o.Routes {
		if routes[i], err = newRouteHandler(g, scope, r, o.published(r), common, o.Observer); err != nil {
			return err
		}
	}
	p.options = rest.options
	p.pages = newPages(g, scope, o, func(h http.Handler) http.Handler { return p.auth.guard(h, p.options) })
	p.router, err = newRouter(rest, routes)
	return err
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// A Content-Length beside Transfer-Encoding is how requests are smuggled, and ends the connection (RFC 9112, section
		// 6.3). net/http removes it unseen, so every chunked request ends its connection.
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.Method == http.MethodConnect:
		p.options.WriteProblem(w, problem(MethodRefused))
	case strings.HasPrefix(r.URL.Path, wellKnown) && p.servePage(w, r):
	case isSafe(r.Method):
		p.serveBounded(w, r, &p.admission.reads)
	default:
		p.serveBounded(w, r, &p.admission.effects)
	}
}

// serveBounded serves a request if there is a place for it.
func (p *Proxy) serveBounded(w http.ResponseWriter, r *http.Request, places *resource) {
	h := newHolder(p.admission, w, r)
	defer p.admission.leave(h)
	if !p.admission.enter(h, places) {
		h.bodyWithin(restOfBody, true)
		p.options.WriteProblem(h, problem(Overloaded))
		return
	}
	p.router.ServeHTTP(h, &h.request)
}

// Hurry ends, until ctx ends, every request that waits for its own client for more than a moment. Call it during a shutdown, which
// would otherwise wait for clients that send or read slowly; operations are not touched.
func (p *Proxy) Hurry(ctx context.Context) {
	look := time.NewTicker(p.admission.patience / 4)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			p.admission.evictStalled()
		}
	}
}

// CloseIdleConnections closes the connections to the upstream, and to AuthURL, that nothing uses.
func (p *Proxy) CloseIdleConnections() {
	p.auth.closeIdleConnections()
	if t, ok := p.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
