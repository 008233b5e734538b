package proxy

import (
	"context"
	"net/http/httptrace"
)

// watch tells whether anything of a request may have reached the upstream.
type watch struct {
	base   context.Context // what the request runs with, before the ReverseProxy added its own trace; nil: no key
	trace  httptrace.ClientTrace
	conn   *countingConn
	before int64 // writes on conn before the request
	blind  bool  // it got a connection that does not count
	sent   bool  // by a connection that it had before
}

// watchOf returns the watch of a request with a key; nil if there is none.
func watchOf(ctx context.Context) *watch {
	s := storyOf(ctx)
	if s == nil || s.watch.base == nil {
		return nil
	}
	return &s.watch
}

// context returns base with a trace that watches. The ReverseProxy's trace is taken over by hand, because
// httptrace joins two of them by reflection at some cost.
func (w *watch) context(ctx context.Context) context.Context {
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

// nothingSent reports whether a request that failed with its context still alive left without a trace. When the context
// has ended, somebody may still be about to write, unless there never was a connection.
func (w *watch) nothingSent(ctx context.Context) bool {
	if w.conn == nil && !w.blind {
		return true
	}
	return ctx.Err() == nil && !w.maySent()
}
