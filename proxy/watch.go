package proxy

import (
	"context"
	"net/http/httptrace"
	"strings"
)

// watch tells whether anything of a request may have reached the upstream.
type watch struct {
	base   context.Context // what the request runs with, before the ReverseProxy added its own trace; nil: no key
	trace  httptrace.ClientTrace
	asked  bool // the Transport reports what it does: it has asked for a connection
	conn   *countingConn
	before int64 // writes on conn before the request
	blind  bool  // it got a connection that does not count
	sent   bool  // by a connection that it had before
}

// watchOf returns the watch of a request with a key; nil if there is none.
func watchOf(ctx context.Context) *watch {
	entry := logEntryOf(ctx)
	if entry == nil || entry.watch.base == nil {
		return nil
	}
	return &entry.watch
}

// context returns base with a trace that watches. The ReverseProxy's trace is taken over by hand, because
// httptrace joins two of them by reflection at some cost.
func (w *watch) context(ctx context.Context) context.Context {
	w.trace.GetConn = func(string) { w.asked = true }
	w.trace.GotConn = w.gotConn
	if theirs := httptrace.ContextClientTrace(ctx); theirs != nil {
		w.trace.Got1xxResponse = theirs.Got1xxResponse
	}
	return httptrace.WithClientTrace(w.base, &w.trace)
}

// gotConn notes how much had been written before this request was. It is called again if the Transport, having
// written nothing, tries another connection.
func (w *watch) gotConn(info httptrace.GotConnInfo) {
	w.sent = w.maySent()
	w.conn = countingConnOf(info.Conn)
	w.blind = w.conn == nil
	if w.conn != nil {
		w.before = w.conn.writes.Load()
	}
}

// maySent reports whether something may have been sent. Connections that several requests share (HTTP/2) make it say
// so too often, never too rarely.
func (w *watch) maySent() bool {
	return w.sent || w.blind || w.conn != nil && w.conn.writes.Load() != w.before
}

// nothingSent reports whether the upstream cannot have seen anything of a failed request. A Transport that has reported no
// connection is believed only if it has reported that it wanted one: one that knows nothing of httptrace may have sent
// anything. Once there was a connection and the context has ended, a write may still be under way.
func (w *watch) nothingSent(ctx context.Context) bool {
	if w.conn == nil && !w.blind {
		return w.asked
	}
	return ctx.Err() == nil && !w.maySent()
}

// sentOnce reports whether the Transport sent the request on one connection at most.
func (w *watch) sentOnce() bool { return w.asked && !w.sent }

// notProcessed reports whether an HTTP/2 server has said that it did not process a request: by REFUSED_STREAM (RFC 9113,
// section 8.7), or by a GOAWAY whose last stream comes before the request's (section 6.8), as each rolling deploy sends
// them. net/http tells by its error's text only. The texts are compared from their beginning, because what follows may
// come from the server. Should they change, the outcome counts as unknown.
func notProcessed(err error) bool {
	text := err.Error()
	if refused, ok := strings.CutPrefix(text, "http2: Transport: cannot retry err [stream error: stream ID "); ok {
		_, refused, _ = strings.Cut(refused, "; ")
		return strings.HasPrefix(refused, "REFUSED_STREAM; received from peer] after ")
	}
	return strings.HasPrefix(text, "http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after ") ||
		strings.HasPrefix(text, "http2: Transport received GOAWAY from server ErrCode:")
}
