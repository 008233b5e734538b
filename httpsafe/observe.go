package httpsafe

import (
	"net/http"

	"github.com/retrysafe/retrysafe/httpkey"
)

// Observe returns a function that wraps a handler so that seen counts what a [Middleware] with the same arguments would
// have done. The handler runs for every request as without it: nothing is refused, delayed or replayed, and no byte of a
// request or an answer is changed. Place it where the Middleware would be.
//
// Keys are claimed and completed beside the requests, by a goroutine for each request with a key, which ends soon after
// the handler. A store that fails or is slow is left alone for a second, and what it missed is counted.
//
//   - The body is digested while the handler reads it. If the handler does not read it to the end, what a Middleware would
//     have compared is not known, and the request counts as [ObservedUnread]. With [FingerprintNone] the body does not
//     matter.
//   - VerifyFunc, ScopeFunc, KeySource and FingerprintFunc are called by that goroutine, with a copy of the request without its body,
//     perhaps after the handler has returned. If one panics, the request counts as [ObservedPanic]. The context of the
//     copy does not end with the request: for VerifyFunc, KeySource and ScopeFunc together it ends after 10 s. One that
//     ignores it and does not return holds one of the places that [ObservationOptions].MaxInFlight counts.
//   - The status of the answer decides whether the key would have been freed. Observe asks for it through the method
//     Status() int of the http.ResponseWriter if there is one. Otherwise the handler gets an http.ResponseWriter that notes
//     it and has the same of Flusher, Hijacker and io.ReaderFrom as the one below, and what net/http's own writers have besides.
//   - A request that Options.VerifyFunc does not verify is served like any other, and counts as [ObservedRefused].
//   - [Release], [Unknown] and [Ambiguous] decide as they do under a Middleware.
//   - Options.QuotaFunc, MemoryFunc, Attempts, RespondAsync and what is about the form of answers have no effect.
//
// Records are kept for as long as those of a Middleware, without an answer and in scopes of their own: see
// [IsObservedScope]. When a route changes to a Middleware, its keys begin afresh. A retry of a request from before the
// change runs once more, as it would have without the change.
//
// Observe panics if scope is nil or if o.Validate returns an error.
func Observe(seen *Observation, scope ScopeFunc, o Options) func(http.Handler) http.Handler {
	m := &middleware{config: checkedConfig("Observe", seen.of, scope, o)}
	return func(next http.Handler) http.Handler { return &observer{m, seen, next} }
}

// observer is a handler that is observed.
type observer struct {
	*middleware // which finds keys; it serves nothing
	seen        *Observation
	next        http.Handler
}

// ServeHTTP implements http.Handler.
func (b *observer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := b.withoutKey(r)
	var s *observedRequest
	if what == 0 && b.mayHaveKey(r) {
		if s = newObservedRequest(b, r); s == nil {
			what = ObservedBusy
		}
	}
	switch {
	case s != nil:
		s.serve(w, r)
	case what != 0:
		defer func() { b.seen.route(b.routeOf(r)).observed[what].Add(1) }() // the pattern may be known only then
		b.next.ServeHTTP(w, r)
	default:
		b.next.ServeHTTP(w, r)
	}
}

// mayHaveKey reports whether a request is guarded and seems to have a key, or is to be verified.
func (b *observer) mayHaveKey(r *http.Request) bool {
	return b.guards(r.Method) && (b.KeySource != nil || b.VerifyFunc != nil || b.hasKey(r))
}

// withoutKey returns what would be done with a request for which no key is claimed; 0 if one is, or if its method is not
// guarded. It follows middleware.ServeHTTP.
func (b *observer) withoutKey(r *http.Request) Observed {
	guarded := b.guards(r.Method)
	switch {
	case !guarded && b.hasKey(r) && b.Profile.RejectUnsupported && !httpkey.IsSafe(r.Method):
		return ObservedRefused
	case !guarded:
		return 0
	case !b.Profile.AllowEarlyData && isEarlyData(r):
		return ObservedRefused
	case b.mayHaveKey(r):
		return 0
	case b.hasFirstSent(r):
		return ObservedRefused
	}
	return b.lacksKey()
}

// lacksKey returns what would be done with a request without a key.
func (c *config) lacksKey() Observed {
	if c.Required {
		return ObservedMissing
	}
	return ObservedNoKey
}

// routeOf returns the route for which a request counts.
func (c *config) routeOf(r *http.Request) string {
	if c.Route != "" {
		return c.Route
	}
	return r.Pattern
}
