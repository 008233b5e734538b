package proxy

import (
	"net/http"

	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpkey"
)

// once sends each request that may have an effect at most once.
//
// net/http's Transport resends a request by itself if a reused connection fails before the answer and it considers
// the request repeatable: it has an Idempotency-Key or X-Idempotency-Key field, and its body is empty or can be read
// again. In a proxy that would be a second execution that the guard cannot see.
type once struct {
	next, unkeyed http.RoundTripper
}

// RoundTrip implements http.RoundTripper. It changes r, which belongs to the ReverseProxy.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	if httpkey.IsSafe(r.Method) {
		return o.unkeyed.RoundTrip(r)
	}
	httpclient.SendOnce(r)
	watch := watchOf(r.Context())
	if watch == nil {
		return o.unkeyed.RoundTrip(r)
	}
	*r = *r.WithContext(watch.context(r.Context()))
	return o.next.RoundTrip(r)
}
