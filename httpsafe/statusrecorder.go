package httpsafe

import (
	"io"
	"net/http"
)

// statusOf returns a function that returns the status of the answer when the handler has returned; 0: none was written.
// A writer that knows it is asked. Otherwise *w is replaced by one that notes it.
func statusOf(w *http.ResponseWriter) func() int {
	if knows, ok := (*w).(interface{ Status() int }); ok {
		return knows.Status
	}
	n := &statusRecorder{ResponseWriter: *w}
	*w = n.like(*w)
	return func() int { return n.status }
}

// statusRecorder notes the status that a handler writes. All calls go to the writer below.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (n *statusRecorder) WriteHeader(status int) {
	if n.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		n.status = status
	}
	n.ResponseWriter.WriteHeader(status)
}

// WriteString implements io.StringWriter.
func (n *statusRecorder) WriteString(s string) (int, error) {
	return io.WriteString(n.ResponseWriter, s)
}

// Unwrap lets http.ResponseController find what is below.
func (n *statusRecorder) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// flusher flushes the writer below. http.ResponseController calls FlushError, and must get the error.
type flusher struct{ below http.ResponseWriter }

// Flush implements http.Flusher.
func (f flusher) Flush() { f.below.(http.Flusher).Flush() }

// FlushError is called by http.ResponseController.
func (f flusher) FlushError() error { return http.NewResponseController(f.below).Flush() }

// server1 and server2 are what net/http's own writers have besides: for HTTP/1, and for HTTP/2.
type (
	server1 interface {
		http.Hijacker
		io.ReaderFrom
		CloseNotify() <-chan bool
	}
	server2 interface {
		http.Pusher
		CloseNotify() <-chan bool
	}
)

// like returns n with the optional interfaces of the writer below, because handlers ask for them: io.Copy sends other
// chunks through an io.ReaderFrom, for example.
func (n *statusRecorder) like(below http.ResponseWriter) http.ResponseWriter {
	_, flushes := below.(http.Flusher)
	f := flusher{below}
	h, hijacks := below.(http.Hijacker)
	r, reads := below.(io.ReaderFrom)
	one, is1 := below.(server1)
	two, is2 := below.(server2)
	switch {
	case flushes && is1:
		return struct {
			*statusRecorder
			flusher
			server1
		}{n, f, one}
	case flushes && is2:
		return struct {
			*statusRecorder
			flusher
			server2
		}{n, f, two}
	case flushes && hijacks && reads:
		return struct {
			*statusRecorder
			flusher
			http.Hijacker
			io.ReaderFrom
		}{n, f, h, r}
	case flushes && hijacks:
		return struct {
			*statusRecorder
			flusher
			http.Hijacker
		}{n, f, h}
	case flushes && reads:
		return struct {
			*statusRecorder
			flusher
			io.ReaderFrom
		}{n, f, r}
	case hijacks && reads:
		return struct {
			*statusRecorder
			http.Hijacker
			io.ReaderFrom
		}{n, h, r}
	case flushes:
		return struct {
			*statusRecorder
			flusher
		}{n, f}
	case hijacks:
		return struct {
			*statusRecorder
			http.Hijacker
		}{n, h}
	case reads:
		return struct {
			*statusRecorder
			io.ReaderFrom
		}{n, r}
	}
	return n
}
