package proxy

import (
	"net/http"

	"github.com/retrysafe/retrysafe/client/httpclient"
)

// once sends each request that may have an effect at most once.
//
// net/http's Transport sends a request again by itself when a reused connection dies before the answer, if it takes the
// request for safe to repeat: it has an Idempotency-Key or X-Idempotency-Key field, and its body is empty or can be had
// again. For a proxy that would be a second execution behind the back of the first.
type once struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper. It changes r, which is the ReverseProxy's own.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	if isSafe(r.Method) {
		return o.next.RoundTrip(r)
	}
	httpclient.SendOnce(r)
	watch := watchOf(r.Context())
	if watch == nil {
		return o.next.RoundTrip(r)
	}
	return o.next.RoundTrip(r.WithContext(watch.context(r.Context())))
}

// isSafe reports whether a method promises to have no effect.
func isSafe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
