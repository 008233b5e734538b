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
// forward.go (send to the upstream).
//
// Around the upstream: transport.go (connections), once.go (never twice), watch.go (was anything sent?), answer.go
// (read the answer), outcome.go (what 502, 503, 504 and 408 mean), rerun.go (may an abandoned request be sent
// again?).
//
// Besides: limits.go (defaults), problems.go (refusals of the proxy itself), pages.go (policy and status pages),
// observe.go (what the Observer is told).
package proxy
