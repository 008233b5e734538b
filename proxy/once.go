package proxy

import (
	"io"
	"net/http"
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
	sendOnce(r)
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

// sendOnce gives r a body that is there and cannot be had again: the Transport repeats no such request once anything of
// it was written, whatever its fields are. A body that is there has an unknown length for net/http, which would send it
// in chunks. "identity" keeps it from that, and the length is given under a name that net/http does not take for its
// own: HTTP/1 sends it as it is, HTTP/2 leaves it out.
func sendOnce(r *http.Request) {
	r.GetBody = nil
	if r.Body != nil && r.Body != http.NoBody {
		return
	}
	r.Body = emptyBody{}
	r.ContentLength = 0
	r.TransferEncoding = []string{"identity"}
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		r.Header["content-length"] = []string{"0"}
	}
}

type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }
