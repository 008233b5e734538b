package httpclient

import (
	"io"
	"net/http"
)

// SendOnce keeps net/http from sending r more than once. It changes r and its Header: give it a request of your own.
//
// net/http's Transport sends a request again by itself when a reused connection dies before the answer, if it takes the
// request for safe to repeat: it has an Idempotency-Key or X-Idempotency-Key field, and its body is empty or can be had
// again. The caller cannot see or count that attempt. SendOnce gives r a body that is there and cannot be
// had again: the Transport repeats no such request once anything of it was written, whatever its fields are.
func SendOnce(r *http.Request) {
	r.GetBody = nil
	if r.Body != nil && r.Body != http.NoBody {
		return
	}
	// A body that is there has an unknown length for net/http, which would send it in chunks. "identity" keeps it from
	// that, and the length is given under a name that net/http does not take for its own: HTTP/1 sends it as it is,
	// HTTP/2 leaves it out.
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
