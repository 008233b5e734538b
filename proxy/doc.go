// Package proxy puts idempotency keys in front of any HTTP API: a reverse proxy that runs each request with a key at
// most once, and answers every retry with the same response.
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	handler, err := proxy.New(guard, httpsafe.ScopeCredential(), proxy.Options{Upstream: proxy.Upstream{URL: upstream}})
//
// A request without a key passes through unchanged, streamed in both directions. A request with a key is read
// completely, claimed and sent once, and its answer is stored before the client gets it. The proxy never sends a
// request with an effect a second time by itself, not even over a new connection when the old one has failed. Whether
// to try again is the client's decision, with the same key.
//
// The upstream gets the client's key header as it came, because the client addressed it. With Route.UpstreamKey it gets
// a key derived from it, which is the same on every attempt.
//
// # What is where
//
// The way of a request, in this order: proxy.go (options, constructor, entry), holder.go and admission.go (a slot and
// memory, and deadlines for slow clients), router.go with lenient.go and patterns.go (which route?), route.go (has it
// a key?), callers.go (limits of each caller), auth.go (may the caller still call?), then package httpsafe, and
// forward.go (send to the upstream). elsewhere.go is about upstreams that complete the keys, and keeps their leases from
// clients.
//
// Around the upstream: transport.go (connections), once.go (never twice), watch.go (was anything sent?), answer.go
// (read the answer), outcome.go (answers that say that nothing happened), rerun.go (may an abandoned request be sent
// again?).
//
// Besides: limits.go (defaults), problems.go (refusals of the proxy itself), pages.go (policy and status pages),
// observe.go (what the Observer is told).
//
// # Design
//
//   - 502, 503, 504 and 408 may come from a gateway in between, also after the API got the request. So they are
//     ambiguous in every profile (httpsafe.Options.TrustUnavailable), unless the answer says that nothing happened.
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
