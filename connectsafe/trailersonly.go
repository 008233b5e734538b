package connectsafe

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// TrailersOnly makes gRPC's own retries (a service config's retryPolicy, grpc-retry-pushback-ms) work with handlers
// of connect-go. It sends an error that no message precedes as Trailers-Only, in one HEADERS frame that ends the
// stream, as grpc-go's servers do. Without it connect-go sends a header frame and then trailers; a header commits the
// call, and gRPC does not retry it (gRFC A6; PROTOCOL-HTTP2.md, "Responses").
//
//	mux.Handle(path, connectsafe.TrailersOnly(handler))
//
// Everything else is sent unchanged: Connect, gRPC-Web, HTTP/1.1, messages, a header that is flushed before the
// answer is known, errors with a header that the handler has set (which stays a header), and what connect.ErrorWriter
// writes. Middleware that sets header fields (CORS, request IDs) must wrap TrailersOnly, not be wrapped by it;
// otherwise its fields count as the handler's.
func TrailersOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, flushes := w.(http.Flusher); !flushes || r.ProtoMajor < 2 || !isGRPC(r.Header.Get("Content-Type")) {
			next.ServeHTTP(w, r)
			return
		}
		t := &trailersOnly{ResponseWriter: w}
		if h := w.Header(); len(h) > 0 {
			t.outside = maps.Clone(h)
		}
		next.ServeHTTP(t, r)
		t.end()
	})
}

// isGRPC reports whether a content type is that of gRPC. Those of gRPC-Web, which begin alike, are not.
func isGRPC(contentType string) bool {
	const grpc = "application/grpc"
	if len(contentType) < len(grpc) || !strings.EqualFold(contentType[:len(grpc)], grpc) {
		return false
	}
	return len(contentType) == len(grpc) || strings.ContainsRune("+;", rune(contentType[len(grpc)]))
}

// trailersOnly is a response that may turn out to be only an error.
type trailersOnly struct {
	http.ResponseWriter
	outside http.Header // set before the handler was called
	begun   bool        // the header has been sent, or can no longer change
}

// Unwrap is called by http.ResponseController.
func (t *trailersOnly) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *trailersOnly) WriteHeader(status int) {
	t.begun = t.begun || status >= http.StatusOK
	t.ResponseWriter.WriteHeader(status)
}

func (t *trailersOnly) Write(p []byte) (int, error) {
	t.begun = true
	return t.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, without which connect-go serves no streams.
func (t *trailersOnly) Flush() { _ = t.FlushError() }

// FlushError is called by http.ResponseController.
func (t *trailersOnly) FlushError() error {
	if !t.begun && t.isError() { // connect-go flushes last, which would send the header alone
		return nil
	}
	t.begun = true
	return http.NewResponseController(t.ResponseWriter).Flush()
}

// end turns the trailers into the header. net/http then ends the stream with it, because nothing was sent before and
// nothing follows.
func (t *trailersOnly) end() {
	if t.begun || !t.isError() {
		return
	}
	h := t.Header()
	for name, values := range h {
		if trailer, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			delete(h, name)
			h[trailer] = values
		}
	}
	h["Content-Length"] = nil // otherwise net/http sends a 0, which clients take for metadata
}

// isError reports whether the response is so far only an error: it has a status, and no header that the handler has
// set.
func (t *trailersOnly) isError() bool {
	h := t.Header()
	status := h[http.TrailerPrefix+"Grpc-Status"]
	if len(status) != 1 || status[0] == "0" {
		return false
	}
	for name, values := range h {
		trailer, isTrailer := strings.CutPrefix(name, http.TrailerPrefix)
		if _, both := h[http.CanonicalHeaderKey(trailer)]; isTrailer && both {
			return false
		}
		if !isTrailer && !t.isUsual(name, values) {
			return false
		}
	}
	return true
}

// isUsual reports whether a header field is connect-go's, or was set before the handler was called.
func (t *trailersOnly) isUsual(name string, values []string) bool {
	switch name {
	case "Content-Type", "Grpc-Accept-Encoding", "Grpc-Encoding":
		return true
	}
	return slices.Equal(values, t.outside[name])
}
