package connectsafe

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// TrailersOnly lets gRPC's own retries (a service config's retryPolicy, grpc-retry-pushback-ms) work with handlers of connect-go: an error
// without a message before it is sent as Trailers-Only, in one HEADERS frame that ends the stream, as grpc-go's servers do. Otherwise
// connect-go sends a header and then trailers, and a header commits the call: gRPC retries it no more (gRFC A6; PROTOCOL-HTTP2.md,
// "Responses").
//
//	mux.Handle(path, connectsafe.TrailersOnly(handler))
//
// All else is sent as it would be: Connect, gRPC-Web, HTTP/1.1, messages, a header that is flushed before the answer is known, errors with a
// header of the handler's own, which stays a header, and what connect.ErrorWriter writes. Place it inside of middleware that sets header
// fields of its own (CORS, request IDs), or they count as the handler's.
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

// isGRPC leaves out gRPC-Web, whose types begin alike.
func isGRPC(contentType string) bool {
	const grpc = "application/grpc"
	if len(contentType) < len(grpc) || !strings.EqualFold(contentType[:len(grpc)], grpc) {
		return false
	}
	return len(contentType) == len(grpc) || strings.ContainsRune("+;", rune(contentType[len(grpc)]))
}

// trailersOnly is a response that may turn out to be nothing but an error.
type trailersOnly struct {
	http.ResponseWriter
	outside http.Header // set before the handler was called
	begun   bool        // the header is on its way, or fixed
}

// Unwrap is for http.ResponseController.
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

// FlushError is for http.ResponseController.
func (t *trailersOnly) FlushError() error {
	if !t.begun && t.isError() { // connect-go's last act, which would send the header alone
		return nil
	}
	t.begun = true
	return http.NewResponseController(t.ResponseWriter).Flush()
}

// end makes the trailers the header. net/http then ends the stream with it, because nothing has been sent and nothing follows.
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
	h["Content-Length"] = nil // or net/http sends a 0, which clients take for metadata
}

// isError reports whether an error is all that there is to say so far: a status, and no header of the handler's own.
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

// isUsual reports whether a header field is connect-go's, or was there before.
func (t *trailersOnly) isUsual(name string, values []string) bool {
	switch name {
	case "Content-Type", "Grpc-Accept-Encoding", "Grpc-Encoding":
		return true
	}
	return slices.Equal(values, t.outside[name])
}
