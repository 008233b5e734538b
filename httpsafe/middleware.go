package httpsafe

import (
	"net/http"
	"reflect"
	"slices"
	"sync"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpkey"
)

// Middleware returns a function that wraps a handler so that requests with a key run it at most once. Requests
// without a key, and requests with other methods, pass through unchanged. With Options.VerifyFunc, requests with guarded
// methods are verified first, whether they have a key or not.
//
// Place it inside of authentication, so that replays are authenticated like any request, and inside of compression,
// because the bytes are stored as the handler wrote them. Place it outside of whatever evaluates If-Match. The limit
// on stored responses is the Guard's Policy.MaxResult.
//
// Never wrap http.TimeoutHandler in it: that answers 503 while its handler is still running, so that the record says
// nothing about the work. Put it around the Middleware instead, or limit the work by Policy.Timeout. The returned function
// panics if it is given one.
//
// If a Middleware is called inside of another one that has claimed the same key, it passes the request on: the
// handler runs in the attempt of the outer one.
//
// Middleware panics if scope is nil or if o.Validate returns an error.
func Middleware(g *retrysafe.Guard, scope ScopeFunc, o Options) func(http.Handler) http.Handler {
	c := checkedConfig("Middleware", g, scope, o)
	return func(next http.Handler) http.Handler {
		if reflect.TypeOf(next) == reflect.TypeOf(http.TimeoutHandler(nil, 0, "")) {
			panic("httpsafe: http.TimeoutHandler inside of the Middleware answers while its handler still runs: put it around " +
				"the Middleware, or limit the work by Policy.Timeout")
		}
		m := &middleware{config: c, next: next}
		m.exchanges.New = func() any { return newExchange(m) }
		m.memories.New = func() any { return new(memory) }
		return m
	}
}

// middleware is a handler that is protected by a guard.
type middleware struct {
	*config
	next      http.Handler
	exchanges sync.Pool // of *exchange
	memories  sync.Pool // of *memory
}

// ServeHTTP implements http.Handler.
func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !m.guards(r.Method) && DeliveryFrom(r.Context()) != nil:
		m.refuseDelivery(w, r)
	case !m.guards(r.Method):
		m.serveUnguarded(w, r)
	case DeliveryFrom(r.Context()) != nil:
		m.serveKeyed(w, r)
	case !m.Profile.AllowEarlyData && isEarlyData(r):
		m.writeProblem(w, rejection(EarlyData), nil)
	case m.KeySource == nil && m.VerifyFunc == nil && !m.hasKey(r) && (!m.Required || len(m.Profile.EchoFields) == 0):
		m.serveWithoutKey(w, r)
	default:
		m.serveKeyed(w, r)
	}
}

// serveUnguarded passes on a request whose method is not guarded. If it has a key, the answer says that the key was
// ignored, or the request is refused where the profile refuses such keys.
func (m *middleware) serveUnguarded(w http.ResponseWriter, r *http.Request) {
	if m.hasKey(r) {
		if m.Profile.RejectUnsupported && !httpkey.IsSafe(r.Method) {
			m.writeProblem(w, problem(retrysafe.SituationNotSupported), nil)
			return
		}
		m.setStatus(w.Header(), "ignored")
	}
	m.next.ServeHTTP(w, r)
}

// serveWithoutKey passes on a request without a key, unless a key is required.
func (m *middleware) serveWithoutKey(w http.ResponseWriter, r *http.Request) {
	switch {
	case m.hasFirstSent(r): // and not the key that belongs to it
		m.writeProblem(w, m.keyMalformed(&httpkey.Error{Reason: httpkey.ReasonFormat}), nil)
	case m.Required:
		m.writeProblem(w, m.keyMissing(), nil)
	default:
		m.next.ServeHTTP(w, r)
	}
}

// serveKeyed serves a request that has a key, or may have one outside of its header.
func (m *middleware) serveKeyed(w http.ResponseWriter, r *http.Request) {
	x := m.exchanges.Get().(*exchange)
	x.w, x.r = w, r
	x.account = account{ask: m.MemoryFunc, ctx: r.Context()}
	x.serve()
	x.reset()
	m.exchanges.Put(x) // after a panic it is left to the garbage collector
}

// guards reports whether requests of this method are guarded.
func (c *config) guards(method string) bool { return slices.Contains(c.Profile.Methods, method) }

// hasKey reports whether a header that carries keys is present, even if it holds no valid key.
func (c *config) hasKey(r *http.Request) bool { return hasAny(r.Header, c.headers) }

// isEarlyData reports whether a proxy in front received the request as TLS early data (RFC 8470).
func isEarlyData(r *http.Request) bool {
	values := r.Header["Early-Data"]
	return len(values) > 1 || len(values) == 1 && values[0] != "0"
}
