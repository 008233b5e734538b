package proxy

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// Options of a Proxy.
type Options struct {
	// Upstream is where requests go. Its URL is required.
	Upstream Upstream
	// Default is the route of requests that no other Route matches. Its Pattern is ignored.
	Default Route
	// Routes are for requests that match their patterns.
	Routes []Route
	// AuthURL is asked whether the caller may call, before a key is claimed or a stored answer is replayed. It gets a
	// GET with the header of the request and X-Forwarded-Method, X-Forwarded-Uri and X-Forwarded-Host. A 2xx lets the
	// request continue; 401 and 403 are passed on to the client; any other answer, or none within 5 s, is 503. It is
	// not asked about requests without a key, because the upstream checks their credentials, unless the key would be
	// in the body. http or https. Default: none, and a retry with a revoked credential still gets its replay.
	AuthURL *url.URL
	// Limits bound the resources that clients can make the proxy hold.
	Limits Limits
	// PublicURL is how clients reach the proxy, such as "https://api.example.com". The types of problems are links to
	// its policy page. Default: the links are relative.
	PublicURL string
	// Observation counts the requests of routes that are Observed, for which it is required. The code that makes it shuts
	// it down. Default: none.
	Observation *httpsafe.Observation
	// Observer is told when a request with a key is forwarded, and what became of it. Default: none.
	Observer Observer
	// TraceFunc gives requests with a key their place in traces. Default: none, and trace headers pass unchanged.
	TraceFunc TraceFunc
	// ErrorLog gets the messages of net/http's ReverseProxy about broken connections. Default: they are discarded.
	ErrorLog *log.Logger
	// Transport sends requests to the upstream. Default: one that fits Upstream. Whatever it is, it gets every
	// request with an effect at most once.
	Transport http.RoundTripper
	// Unkeyed sends the requests that are no attempts: those with safe methods and those without a key. Default: what sends
	// all others.
	Unkeyed http.RoundTripper
}

// Paths that the proxy answers itself, to GET and HEAD.
const (
	// PolicyPath is the address of the published rules: see httpsafe.PolicyPage.
	PolicyPath = "/.well-known/idempotency-policy"
	// StatusPath is where a client finds the status of its keys, by their digests: see httpsafe.StatusHandler.
	StatusPath = "/.well-known/idempotency-status"
	// KeyStatusPath is where a client asks for a key that it knows, behind a slash: see Route.KeyStatus.
	KeyStatusPath = "/.well-known/idempotency"
	// routeStatusPath is that of keys whose scope includes the route. A scope with a version has a path of its own below
	// each of the two.
	routeStatusPath = StatusPath + "/route"
)

// Proxy is the handler. It is safe for concurrent use.
type Proxy struct {
	guard     *retrysafe.Guard
	admission *admission
	reloading sync.Mutex
	current   atomic.Pointer[generation]
}

// New returns a proxy whose keys are kept by g and belong to the callers that scope names. It returns an error if the
// options are invalid: an unusable URL, a pattern that conflicts with another, faults in a route's HTTP options, or
// limits of a route that do not fit into Limits.Memory.
func New(g *retrysafe.Guard, scope httpsafe.ScopeFunc, o Options) (*Proxy, error) {
	p := &Proxy{
		guard: g.WithObserver(retrysafe.ObserverFunc(logEvents)), admission: newAdmission(o.Limits.withDefaults()),
	}
	first, err := newGeneration(p, scope, o)
	if err != nil {
		return nil, err
	}
	p.current.Store(first)
	return p, nil
}

// mount builds the routes, and the pages that describe them.
func (p *generation) mount(g *retrysafe.Guard, scope httpsafe.ScopeFunc, o Options) error {
	common := sharing{
		upstream: o.Upstream, transport: o.Transport, unkeyed: o.Unkeyed, buffers: &copyBuffers{}, errorLog: o.ErrorLog,
		auth: p.auth, admission: p.admission, limits: o.Limits.withDefaults(),
		announced: o.announcements(g), trace: o.TraceFunc, observation: o.Observation,
	}
	o.Default.Pattern = ""
	handler := func(r Route) (*routeHandler, error) {
		to, err := p.upstreamOf(r, common)
		if err != nil {
			return nil, err
		}
		return newRouteHandler(g, scope, r, o.published(r, g), to, o.Observer)
	}
	rest, err := handler(o.Default)
	if err != nil {
		return err
	}
	routes := make([]*routeHandler, len(o.Routes))
	for i, r := range o.Routes {
		if routes[i], err = handler(r); err != nil {
			return err
		}
	}
	p.options = rest.options
	p.pages = newPages(g, scope, o, func(h http.Handler) http.Handler { return p.auth.guard(h, &p.options) })
	if p.router, err = newRouter(rest, routes); err != nil {
		return err
	}
	p.keyStatus = newKeyStatus(append(routes, rest), scope, p.router)
	return nil
}

// upstreamOf returns what a route shares with the others that have its upstream.
func (p *generation) upstreamOf(r Route, common sharing) (sharing, error) {
	if r.Upstream != nil {
		common.upstream.URL = r.Upstream
		if err := common.upstream.validate(); err != nil {
			return common, fmt.Errorf("proxy: route %q: %s", r.Pattern, strings.TrimPrefix(err.Error(), "proxy: "))
		}
	}
	address := common.upstream.URL.String()
	if known, ok := p.upstreams[address]; ok {
		return known, nil
	}
	if common.transport == nil {
		common.transport = newTransport(common.upstream)
	}
	p.upstreams[address] = common
	return common, nil
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := p.enter()
	defer now.leave()
	now.serve(w, r)
}

// serve answers a request, with the options of one generation to the end.
func (p *generation) serve(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// A Content-Length beside Transfer-Encoding is how requests are smuggled, and ends the connection (RFC 9112, section
		// 6.3). net/http removes it unseen, so every chunked request ends its connection.
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.Method == http.MethodConnect:
		writeProblem(&p.options, w, MethodRefused)
	case !hasPath(r):
		writeProblem(&p.options, w, TargetRefused)
	case strings.HasPrefix(r.URL.Path, wellKnown) && p.servePage(w, r):
	case p.keyStatus != nil && isKeyStatus(r):
		p.serveBounded(w, r, &p.admission.reads, p.keyStatus)
	case httpkey.IsSafe(r.Method):
		p.serveBounded(w, r, &p.admission.reads, p.router)
	default:
		p.serveBounded(w, r, &p.admission.effects, p.router)
	}
}

// hasPath reports whether the request target is a path, alone or in an absolute URL, or the asterisk of OPTIONS (RFC
// 9112, section 3.2). Anything else, such as "x:pay", matches no route, but some upstreams take it for a path.
func hasPath(r *http.Request) bool {
	path := r.URL.Path
	return r.URL.Opaque == "" && (path == "" || path[0] == '/' || path == "*" && r.Method == http.MethodOptions)
}

// serveBounded lets next serve a request if there is a slot for it.
func (p *generation) serveBounded(w http.ResponseWriter, r *http.Request, slots *resource, next http.Handler) {
	h := newHolder(p.admission, w, r)
	p.users.Add(1)
	h.generation = p
	defer p.admission.leave(h)
	if !p.admission.enter(h, slots) {
		h.bodyWithin(restOfBody, true)
		writeProblem(&p.options, h, Overloaded)
		p.leave()
		return
	}
	next.ServeHTTP(h, &h.request)
}

// Hurry ends every request that waits for its own client for more than a moment, until ctx ends. Call it during a
// shutdown, which would otherwise wait for clients that send or read slowly. Operations are not interrupted.
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

// CloseIdleConnections closes the unused connections to the upstreams and to AuthURL.
func (p *Proxy) CloseIdleConnections() { p.current.Load().closeIdleConnections() }

func (p *generation) closeIdleConnections() {
	p.auth.closeIdleConnections()
	for _, to := range p.upstreams {
		if t, ok := to.transport.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
		}
	}
}
