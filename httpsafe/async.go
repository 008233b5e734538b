package httpsafe

import (
	"context"
	"log"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"
)

// serveAsync answers as soon as the key is claimed, with the address of the status, while the handler is still
// running. If the request can be answered without running the handler, it is answered as usual.
//
// The handler runs in an exchange of its own, because net/http ends the request when this function returns.
func (x *exchange) serveAsync() {
	if p := x.spool(); p != nil { // net/http closes the body when this function returns
		x.writeProblem(*p)
		return
	}
	if p := x.account.take(uncounted); p != nil { // MemoryFunc learns of all work that continues, however small
		x.writeProblem(*p)
		return
	}
	began, done := make(chan struct{}), make(chan struct{})
	behind := x.detach(began)
	ctx := x.r.Context()
	go func() {
		defer close(done)
		defer behind.account.release()
		defer behind.removeFiles()
		defer behind.logPanic()
		behind.do(ctx)
	}()
	select {
	case <-began:
	case <-done:
	}
	select {
	case <-began:
		x.w.Header().Add("Preference-Applied", "respond-async")
		x.accept("pending", time.Second)
	default:
		behind.w.(*detachedWriter).copyTo(x.w)
	}
}

// begin announces that the handler is about to run.
func (x *exchange) begin() {
	if x.began != nil {
		x.w.(*detachedWriter).discards = true
		close(x.began)
		x.began = nil // the handler may run again
	}
}

// removeFiles removes the uploaded files of a form, as net/http does at the end of a request.
func (x *exchange) removeFiles() {
	if x.r.MultipartForm != nil {
		_ = x.r.MultipartForm.RemoveAll() // net/http ignores the error too
	}
}

// detach returns an exchange that may outlive this one. It takes over the body of the request and the memory for it.
func (x *exchange) detach(began chan<- struct{}) *exchange {
	behind := newExchange(x.m)
	behind.r = x.r.Clone(context.WithoutCancel(x.r.Context()))
	behind.w = &detachedWriter{header: http.Header{}}
	behind.request, behind.compared, behind.echo, behind.prefer = x.request, x.compared, x.echo, x.prefer
	behind.body, behind.spooled, behind.began = x.body, x.spooled, began
	behind.account = x.account
	behind.account.ctx = behind.r.Context()
	x.body, x.account.held = nil, 0
	return behind
}

// logPanic handles a panic as net/http would. There is no connection left to close, so it only writes to the log.
func (x *exchange) logPanic() {
	p := recover()
	if p == nil || isAbort(p) {
		return
	}
	logf := log.Printf
	if server, ok := x.r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ErrorLog != nil {
		logf = server.ErrorLog.Printf
	}
	logf("http: panic serving asynchronously: %v\n%s", p, debug.Stack())
}

// statusURL is the address of the request's status.
func (x *exchange) statusURL() string { return x.m.StatusPath + "/" + x.request.Key.String() }

// accept answers 202 with the address of the status, and the state of the request.
func (x *exchange) accept(state string, wait time.Duration) {
	location := x.statusURL()
	body := encodedLine(struct {
		State  string `json:"state"`
		Status string `json:"status"`
	}{state, location})
	h := x.w.Header()
	x.m.setStatus(h, "in-flight")
	h.Set("Location", location)
	h.Set("Content-Type", jsonType)
	h.Set("Cache-Control", "no-store")
	h.Set("Retry-After", strconv.Itoa(wholeSeconds(wait)))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(http.StatusAccepted)
	x.w.Write(body)
}

// detachedWriter keeps a refusal until it is known that the handler does not run. The response of a handler goes to
// the recorder, and what is written here is discarded.
type detachedWriter struct {
	header   http.Header
	status   int
	body     []byte
	discards bool
	replays  *string // what NoteReplay was given; nil: no replay
}

func isDetached(w http.ResponseWriter) bool {
	_, ok := w.(*detachedWriter)
	return ok
}

// NoteReplay implements ReplayNoter.
func (w *detachedWriter) NoteReplay(traceparent string) { w.replays = &traceparent }

// Header implements http.ResponseWriter.
func (w *detachedWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *detachedWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *detachedWriter) Write(p []byte) (int, error) {
	if !w.discards {
		w.body = append(w.body, p...)
	}
	return len(p), nil
}

// copyTo sends the refusal to the client.
func (w *detachedWriter) copyTo(out http.ResponseWriter) {
	if noter, ok := out.(ReplayNoter); ok && w.replays != nil {
		noter.NoteReplay(*w.replays)
	}
	h := out.Header()
	for name, values := range w.header {
		h[name] = values
	}
	out.WriteHeader(w.status)
	out.Write(w.body)
}
