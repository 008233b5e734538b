// Package proxy puts idempotency keys in front of any HTTP API: a reverse proxy that runs each request with a key at most
// once, and answers every retry with the same response.
//
//	guard := retrysafe.New(store, retrysafe.Options{Observer: proxy.Observer(nil)})
//	handler, err := proxy.New(guard, httpsafe.ScopeCredential(), proxy.Options{Upstream: proxy.Upstream{URL: upstream}})
//
// What comes without a key passes through as it is, streamed both ways. What comes with one is read whole, claimed, sent
// once, and its answer kept before the client gets it. The proxy never sends a request with an effect again, not even
// into a new connection when the old one has died: whether to try again is the client's to decide, with the same key.
//
// The upstream gets the client's key field as it came, because the client addressed it; with Route.UpstreamKey it gets
// a key derived from it, which is the same on every attempt.
package proxy

import (
	"io"
	"log"
	"net/http"
	"strings"
	"sync/atomic"

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
	// Concurrent bounds the requests, of methods that may have an effect, that are worked on at once; more get 503.
	// Default 10000.
	Concurrent int
	// PublicURL is how clients reach the proxy, such as "https://api.example.com". The types of problems are links to
	// its policy page. Default: they are relative.
	PublicURL string
	// ReportFunc is told what became of each request with a key, after it was answered. Default: nobody is.
	ReportFunc func(Report)
	// ErrorLog gets what net/http's ReverseProxy has to say of broken connections. Default: nothing is logged.
	ErrorLog *log.Logger
	// Transport sends to the upstream. Default: one that fits Upstream. Every request with an effect is sent by it at
	// most once in any case.
	Transport http.RoundTripper
}

const defaultConcurrent = 10_000

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
	router     *router
	pages      *http.ServeMux // PolicyPath, StatusPath
	transport  http.RoundTripper
	problems   problemWriter
	concurrent int64
	running    atomic.Int64
}

// New returns a proxy whose keys are kept by g and belong to whom scope says. g's Observer should be that of Observer.
func New(g *retrysafe.Guard, scope httpsafe.ScopeFunc, o Options) (*Proxy, error) {
	if err := o.Upstream.validate(); err != nil {
		return nil, err
	}
	p := &Proxy{
		transport:  o.Transport,
		concurrent: int64(orElse(o.Concurrent, defaultConcurrent)),
	}
	if p.transport == nil {
		p.transport = newTransport(o.Upstream)
	}
	if o.ErrorLog == nil {
		o.ErrorLog = log.New(io.Discard, "", 0)
	}
	return p, p.mount(g, scope, o)
}

// mount builds the routes and the pages that tell about them.
func (p *Proxy) mount(g *retrysafe.Guard, scope httpsafe.ScopeFunc, o Options) error {
	common := sharing{upstream: o.Upstream, transport: p.transport, buffers: &copyBuffers{}, errorLog: o.ErrorLog}
	o.Default.Pattern = ""
	o.Default.HTTP = o.published(o.Default.HTTP)
	rest, err := newRouteHandler(g, scope, o.Default, common, o.ReportFunc)
	if err != nil {
		return err
	}
	routes := make([]*routeHandler, len(o.Routes))
	for i, r := range o.Routes {
		r.HTTP = o.published(r.HTTP)
		if routes[i], err = newRouteHandler(g, scope, r, common, o.ReportFunc); err != nil {
			return err
		}
	}
	p.problems = rest.problems
	p.pages = newPages(g, scope, o)
	p.router, err = newRouter(rest, routes)
	return err
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.problems.write(w, MethodRefused)
	case strings.HasPrefix(r.URL.Path, wellKnown) && p.servePage(w, r):
	case isSafe(r.Method):
		p.router.ServeHTTP(w, r)
	default:
		p.serveBounded(w, r)
	}
}

// serveBounded refuses what is too much at once: each request with a key is held in memory.
func (p *Proxy) serveBounded(w http.ResponseWriter, r *http.Request) {
	defer p.running.Add(-1)
	if p.running.Add(1) > p.concurrent {
		p.problems.write(w, Overloaded)
		return
	}
	p.router.ServeHTTP(w, r)
}

// CloseIdleConnections closes the connections to the upstream that nothing uses.
func (p *Proxy) CloseIdleConnections() {
	if t, ok := p.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
