// Package httpsafe makes net/http handlers safe to retry: a request with an idempotency key runs its handler at most
// once, and every retry gets the same response, byte for byte.
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	safe := httpsafe.Middleware(guard, callerOf, httpsafe.Options{})
//	mux.Handle("POST /payments", authenticate(safe(pay)))
//
// callerOf is a ScopeFunc: it returns whose request it is, as authentication has put it into the context.
//
// The rules are the Guard's; this package translates: it finds the key, the scope and the fingerprint in the request,
// records the response, and words every refusal as the Profile says.
//
// Transport and Client are the other side: one key for each intent, sent as often as it takes, kept in a Journal while
// the outcome is not known.
//
//	transport, err := httpclient.NewTransport(httpclient.Options{Profile: httpsafe.Stripe()})
//	client := http.Client{Transport: transport}
//
// # Design
//
//   - Who answers decides what a status means. A handler knows that it failed, so a profile may free the key after its
//     500. An answer that a layer makes up because it got none (Ambiguous) is never classified by its status: the key
//     is abandoned, as after a crash.
//   - A 500 follows the policy for crashes. Where Rerun or Reconcile says that work may be entered again after a crash,
//     it may be entered again after a 500. Under Refuse an ambiguous answer is stored.
//   - A refusal in flight is not an answer of the operation. A guard behind this one, or a provider, may answer 4xx "in
//     flight" under the same key. Such answers are recognised by the signals of the client, passed on and not kept.
//   - Hosts are compared by name. A fingerprint holds the host's name, for APIs that tell tenants apart by it, but no
//     port and no IP address, because clients that balance load retry at another address of the same service.
//   - This package only says how many bytes an exchange takes and gives back (MemoryFunc). Asynchronous work takes some
//     too, so that it is counted until it ends.
package httpsafe

import (
	"net/http"
	"slices"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// Middleware returns what wraps a handler so that requests with a key run it at most once. Requests without a key, and
// requests of other methods, pass through untouched.
//
// Place it inside of authentication (a replay is authenticated like any request) and inside of compression (the bytes
// are kept as the handler wrote them), and outside of whatever evaluates If-Match. The limit on stored responses is the
// Guard's Policy.MaxResult.
//
// Never wrap http.TimeoutHandler: it answers 503 while its handler goes on, which says that nothing happened and frees the
// key. Put it around the Middleware, or bound the work by Policy.Timeout.
//
// A Middleware inside of another that has claimed the same key passes requests on: the handler runs in the outer one's attempt.
//
// Middleware panics if scope is nil or if o.Validate reports an error.
func Middleware(g *retrysafe.Guard, scope ScopeFunc, o Options) func(http.Handler) http.Handler {
	if scope == nil {
		panic("httpsafe: Middleware needs a ScopeFunc; ScopeNone() says that all callers share one scope")
	}
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	c := newConfig(g, scope, o)
	return func(next http.Handler) http.Handler {
		m := &middleware{config: c, next: next}
		m.exchanges.New = func() any { return newExchange(m) }
		m.memories.New = func() any { return new(memory) }
		return m
	}
}

// middleware is a handler with a guard in front of it.
type middleware struct {
	*config
	next      http.Handler
	exchanges sync.Pool // of *exchange
	memories  sync.Pool // of *memory
}

// ServeHTTP implements http.Handler.
func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !m.guards(r.Method):
		m.serveUnguarded(w, r)
	case !m.Profile.AllowEarlyData && isEarlyData(r):
		m.WriteProblem(w, rejection(EarlyData))
	case m.KeySource == nil && !m.hasKey(r):
		m.serveWithoutKey(w, r)
	default:
		m.serveKeyed(w, r)
	}
}

// serveUnguarded passes a request of another method on, and says so if it brought a key.
func (m *middleware) serveUnguarded(w http.ResponseWriter, r *http.Request) {
	if m.hasKey(r) {
		if m.Profile.RejectUnsupported && !isSafe(r.Method) {
			m.WriteProblem(w, problem(retrysafe.SituationNotSupported))
			return
		}
		m.setStatus(w.Header(), "ignored")
	}
	m.next.ServeHTTP(w, r)
}

func (m *middleware) serveWithoutKey(w http.ResponseWriter, r *http.Request) {
	switch {
	case m.Profile.FirstSent != "" && len(r.Header[m.Profile.FirstSent]) > 0: // without the key that belongs to it
		m.WriteProblem(w, m.keyMalformed(&KeyError{ReasonFormat}))
	case m.Required:
		m.WriteProblem(w, m.keyMissing())
	default:
		m.next.ServeHTTP(w, r)
	}
}

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

// hasKey reports whether a header that carries keys is there, whatever it holds.
func (c *config) hasKey(r *http.Request) bool { return hasAny(r.Header, c.headers) }

func isEarlyData(r *http.Request) bool {
	values := r.Header["Early-Data"]
	return len(values) > 1 || len(values) == 1 && values[0] != "0"
}

func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "QUERY":
		return true
	}
	return false
}
