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
// a key derived from it, which is the same on every attempt. With retrysafe.Options.ChildSecret the client's key
// cannot be guessed from it.
//
// design.md in the folder of this package says why it is built so and what its files are.
package proxy
