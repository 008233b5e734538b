package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// Route says how the requests that match a pattern are treated.
type Route struct {
	// Pattern as net/http's ServeMux has them: "POST /payments/{id}".
	Pattern string
	// Upstream is where the requests go instead of Options.Upstream.URL; what else is said of the upstream holds for it
	// too. The path of the URL precedes that of each request. Default: Options.Upstream.URL.
	Upstream *url.URL
	// Unguarded passes requests through even if they have a key.
	Unguarded bool
	// Observed passes requests through as Unguarded does, and Options.Observation counts what would have become of them if
	// they were guarded: see httpsafe.Observe. The upstream gets none of the headers that attempts have.
	Observed bool
	// EnforceFor reports whether the requests of a caller are guarded although the route is Observed. It gets the name that
	// the ScopeFunc returns. Requests of unknown callers are observed. Default: it is so for no caller.
	EnforceFor func(caller string) bool
	// Scope names the callers of the route's requests, for routes whose callers have other credentials, such as signatures.
	// The pages about keys do not know these callers. Default: the function that New was given.
	Scope httpsafe.ScopeFunc
	// Policy overrides the Guard's in the fields that are set.
	Policy retrysafe.Policy
	// HTTP says how keys and answers look. BufferFlushes is set by the proxy: see Stream. A request is verified by
	// HTTP.VerifyFunc before AuthURL is asked about it; on a route that is Observed, one that is not verified is forwarded.
	// With HTTP.Inbox, a Proxy is also the handler that inbox.Inbox.Run delivers the requests to. One that a route without
	// HTTP.Inbox matches, because the options have changed since it was accepted, is not sent, and waits.
	//
	// With HTTP.CompletedElsewhere the upstream completes the keys in transactions of its own. Each request with a key is
	// sent with httpsafe.LeaseHeader and httpsafe.AttemptHeader. If no answer comes and the key was not completed, it is
	// released, and the client is told that nothing happened, or the request is sent again (HTTP.Attempts). What Policy
	// leaves open is filled in by retrysafe.Policy.CompletedElsewhere. Neither Stream nor FailOpen can be combined with
	// it. The Guard's store must be one that the upstream can reach.
	HTTP httpsafe.Options
	// Stream passes answers on as they arrive, which event streams always are; such an answer is not replayable.
	// Default: answers are read completely, up to Policy.MaxResult, before they are passed on.
	Stream bool
	// UpstreamKey is the header in which the upstream gets a key derived from the client's, the same on every attempt: see
	// retrysafe.Guard.ChildKey. If it is the header of the client's key, it replaces that. An abandoned request whose key
	// was derived with another ChildSecret of the Guard is not sent again: its outcome stays unknown. Default: none.
	UpstreamKey string
	// AttemptHeader is the header in which the upstream gets the number of the attempt, from 1, and from 1 again after
	// the key was released: so 1 does not say that nothing was tried before. Default: none.
	AttemptHeader string
	// KeyStatus answers clients that ask at KeyStatusPath what became of a key of the route: see httpsafe.KeyStatusHandler.
	// The keys must be chosen by clients, and not made from requests. Default: such questions are forwarded.
	KeyStatus bool
	// BodyTimeout bounds how long the body of a request with a key may take to arrive. The body of a request without
	// a key is streamed; it bounds each pause in it, until the answer begins. Default 30 s; negative: no limit.
	BodyTimeout time.Duration
}

// enforces reports whether requests of any caller are guarded.
func (r Route) enforces() bool { return !r.Unguarded && (!r.Observed || r.EnforceFor != nil) }

const defaultBodyTimeout = 30 * time.Second

// routeHandler serves one route.
type routeHandler struct {
	pattern     string
	guarded     http.Handler
	forward     *forwarder
	options     httpsafe.Options
	observer    Observer // nil: none
	bodyTimeout time.Duration
	admission   *admission

	auth  *authorizer
	trace TraceFunc // nil: none

	rules     httpsafe.Rules
	noGuards  bool
	keyStatus bool             // for clients that ask
	guard     *retrysafe.Guard // the route's own

	observed   http.Handler // of a route that is observed; nil: it is not
	scope      httpsafe.ScopeFunc
	enforceFor func(caller string) bool // nil: for no caller
}

// newRouteHandler serves a route with its options as they are in force.
func newRouteHandler(
	g *retrysafe.Guard, scope httpsafe.ScopeFunc, r Route, o httpsafe.Options, common sharing, observer Observer,
) (*routeHandler, error) {
	if err := errors.Join(o.Validate(), r.checkHeaders(), r.checkKeyStatus(), r.checkVerify()); err != nil {
		return nil, fmt.Errorf("proxy: route %q: %w", r.Pattern, err)
	}
	if r.Scope != nil {
		scope = r.Scope
	}
	r.HTTP = r.HTTP.WithDefaults()
	own := g.With(r.policy())
	if err := r.checkCompletedElsewhere(own.Policy()); err != nil {
		return nil, fmt.Errorf("proxy: route %q: %w", r.Pattern, err)
	}
	if own.Policy().OnAbandoned.Equal(retrysafe.Rerun()) {
		own = own.With(retrysafe.Policy{OnAbandoned: rerunIfSentAlike(o.FingerprintVersion)})
	}
	h := &routeHandler{
		pattern:     r.Pattern,
		observer:    observer,
		bodyTimeout: orElse(r.BodyTimeout, defaultBodyTimeout),
		admission:   common.admission,
		noGuards:    r.Unguarded,
		keyStatus:   r.KeyStatus && r.enforces(),
		guard:       own,
		options:     o,
		rules:       o.Rules(r.Pattern, own.Policy()),
	}
	most := max(o.MaxRequestBody, int64(own.Policy().MaxResult))
	if o.CompletedElsewhere { // the service may save an answer as large as the SQL functions accept
		most = max(most, 16<<20)
	}
	if err := common.limits.fits(r.Pattern, most); err != nil {
		return nil, err
	}
	h.auth, h.trace, common.options = common.auth, common.trace, h.options
	h.forward = newForwarder(common, r, own.Policy())
	if o.Inbox != nil && (r.Observed || r.Unguarded) {
		return nil, fmt.Errorf("proxy: route %q is not guarded, so that HTTP.Inbox has no keys", r.Pattern)
	}
	if r.Observed && !r.Unguarded {
		if common.observation == nil {
			return nil, fmt.Errorf("proxy: route %q is Observed, which needs Options.Observation", r.Pattern)
		}
		h.observed = httpsafe.Observe(common.observation.With(own.Policy()), scope, o)(h.forward)
		h.scope, h.enforceFor = scope, r.EnforceFor
	}
	if o.Inbox != nil {
		o.Inbox = loggedInbox{o.Inbox}
	}
	o.MemoryFunc, o.QuotaFunc, o.VerifyFunc = h.takeMemory, h.quota(o.QuotaFunc), h.verify(o.VerifyFunc)
	h.guarded = httpsafe.Middleware(own, callerOf(scope), o)(h.forward)
	return h, nil
}

// takeMemory is the httpsafe.MemoryFunc of every route.
func (h *routeHandler) takeMemory(ctx context.Context, n int) *httpsafe.Problem {
	if entry := logEntryOf(ctx); entry == nil || entry.holder.grow(n) {
		return nil
	}
	p := problem(Overloaded)
	return &p
}

// loggedInbox notes in the log entry of a request that it was accepted.
type loggedInbox struct{ httpsafe.Inbox }

// Accept implements httpsafe.Inbox.
func (i loggedInbox) Accept(ctx context.Context, a *httpsafe.Accepted) (fresh bool, err error) {
	fresh, err = i.Inbox.Accept(ctx, a)
	if entry := logEntryOf(ctx); entry != nil {
		entry.accept(a.Key, fresh, err)
	}
	return fresh, err
}

// checkVerify returns an error if requests should be verified that pass through.
func (r Route) checkVerify() error {
	if r.Unguarded && r.HTTP.VerifyFunc != nil {
		return errors.New("HTTP.VerifyFunc and Unguarded cannot be combined: requests would pass without being verified")
	}
	return nil
}

// verify returns a function that verifies a request and then asks AuthURL about it, which so never hears of requests
// with a wrong signature.
func (h *routeHandler) verify(signature httpsafe.VerifyFunc) httpsafe.VerifyFunc {
	if signature == nil {
		return nil
	}
	return func(r *http.Request, body []byte) error {
		err := signature(r, body)
		if err == nil && h.rules.MayHaveKey(r) {
			if refusal := h.auth.ask(r, &h.options); refusal != nil {
				err = refusal
			}
		}
		if err != nil {
			logEntryOf(r.Context()).fail(err)
		}
		return err
	}
}

// ServeHTTP implements http.Handler.
func (h *routeHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hold := w.(*holder) // set by Proxy.serveBounded
	// A request that lacks a required key is refused without being forwarded, so it is treated like one with a key; and so
	// is one whose body is read to verify it. A request of an inbox has a key, wherever that was.
	delivered := httpsafe.DeliveryFrom(r.Context()) != nil
	keyed := !h.noGuards && (delivered || h.rules.MayHaveKey(r) || (h.rules.Required || h.rules.Signed) && h.rules.Guards(r.Method))
	observed := h.observed != nil && !h.enforces(r)
	hold.bodyWithin(h.bodyTimeout, keyed && !observed)
	switch {
	case delivered && h.options.Inbox == nil:
		refuseDelivery(&h.options, w, r)
	case observed:
		h.observed.ServeHTTP(w, r)
	case h.noGuards:
		h.forward.ServeHTTP(w, r)
	case !keyed:
		h.guarded.ServeHTTP(w, r)
	default:
		h.serveKeyed(hold, r)
	}
}

// enforces reports whether a request of an observed route is guarded all the same, because of its caller.
func (h *routeHandler) enforces(r *http.Request) bool {
	if h.enforceFor == nil || !h.rules.Guards(r.Method) {
		return false
	}
	name, err := h.scope(r)
	return err == nil && h.enforceFor(name)
}

// serveKeyed serves a request that seems to have a key, and tells the observer what became of it.
func (h *routeHandler) serveKeyed(hold *holder, r *http.Request) {
	began := time.Now()
	entry := &logEntry{Context: r.Context(), holder: hold, route: h}
	ended := func(Event) {}
	if h.trace != nil {
		r.Header = r.Header.Clone() // it belongs to the code that calls the proxy
		ended = h.trace(r)
	}
	defer func() { // after a panic too, which is how a connection is cut
		h.settle(entry, entry.kind())
		if h.trace == nil && h.observer == nil {
			return
		}
		e, ok := entry.event(r, h.pattern, began)
		ended(e)
		if ok && h.observer != nil {
			h.observer.Observe(entry.Context, e)
		}
	}()
	if h.rules.MayHaveKey(r) && !h.rules.Signed && httpsafe.DeliveryFrom(r.Context()) == nil { // verify asks about signed ones
		if err := h.auth.refuse(hold, r, &h.options); err != nil {
			entry.fail(err)
			return
		}
	}
	*r = *r.WithContext(entry) // r is a copy already: see newHolder
	h.guarded.ServeHTTP(hold, r)
}
