package proxy

import (
	"context"
	"net/http/httptrace"
	"strings"
)

// watch observes whether any bytes of a request may have reached the upstream.
type watch struct {
	base   context.Context // what the request runs with, before the ReverseProxy added its own trace; nil: no key
	trace  httptrace.ClientTrace
	asked  bool // the Transport supports httptrace: it has asked for a connection
	conn   *countingConn
	before int64 // writes on conn before the request
	blind  bool  // it got a connection that does not count
	sent   bool  // by a connection that it had before
}

// watchOf returns the watch of a request with a key; nil for other requests.
func watchOf(ctx context.Context) *watch {
	entry := logEntryOf(ctx)
	if entry == nil || entry.watch.base == nil {
		return nil
	}
	return &entry.watch
}

// context returns base with a trace that watches. The ReverseProxy's trace is copied by hand, because httptrace joins
// two of them by reflection, which is slow.
func (w *watch) context(ctx context.Context) context.Context {
	w.trace.GetConn = func(string) { w.asked = true }
	w.trace.GotConn = w.gotConn
	if theirs := httptrace.ContextClientTrace(ctx); theirs != nil {
		w.trace.Got1xxResponse = theirs.Got1xxResponse
	}
	return httptrace.WithClientTrace(w.base, &w.trace)
}

// gotConn notes how much had been written before this request. It is called again if the Transport has written
// nothing and tries another connection.
func (w *watch) gotConn(info httptrace.GotConnInfo) {
	w.sent = w.maySent()
	w.conn = countingConnOf(info.Conn)
	w.blind = w.conn == nil
	if w.conn != nil {
		w.before = w.conn.writes.Load()
	}
}

// maySent reports whether bytes may have been sent. On connections that several requests share (HTTP/2) it is true
// too often, and never false wrongly.
func (w *watch) maySent() bool {
	return w.sent || w.blind || w.conn != nil && w.conn.writes.Load() != w.before
}

// nothingSent reports whether the upstream certainly has seen nothing of a failed request. If the Transport has
// reported no connection, that counts only if it has reported that it wanted one: a Transport without httptrace may
// have sent anything. If there was a connection and the context has ended, a write may still be in progress.
func (w *watch) nothingSent(ctx context.Context) bool {
	if w.conn == nil && !w.blind {
		return w.asked
	}
	return ctx.Err() == nil && !w.maySent()
}

// sentOnce reports whether the Transport sent the request on at most one connection.
func (w *watch) sentOnce() bool { return w.asked && !w.sent }

// notProcessed reports whether an HTTP/2 server has said that it did not process a request: by REFUSED_STREAM (RFC
// 9113, section 8.7), or by a GOAWAY whose last stream precedes that of the request (section 6.8), as rolling
// deployments send them. net/http has no error type for these, only texts. They are compared from their beginning,
// because what follows may come from the server. If the texts change, the outcome counts as unknown.
func notProcessed(err error) bool {
	text := err.Error()
	if refused, ok := strings.CutPrefix(text, "http2: Transport: cannot retry err [stream error: stream ID "); ok {
		_, refused, _ = strings.Cut(refused, "; ")
		return strings.HasPrefix(refused, "REFUSED_STREAM; received from peer] after ")
	}
	text, ok := strings.CutPrefix(text, "http2: Transport")
	const shutdown = ": cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after "
	return ok && (strings.HasPrefix(text, shutdown) || strings.HasPrefix(text, " received GOAWAY from server ErrCode:"))
}
