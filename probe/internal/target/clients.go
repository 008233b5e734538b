package target

import (
	"bytes"
	"io"
	"net/http"
	"path"
	"strings"
	"time"
)

// Faults that clients bring out which are slow, or which write a request in another way.
const (
	SlowBodies     Fault = "half a body is waited for"        // for ever
	UnreadHolds    Fault = "an unread answer holds the key"   // which is in flight until the client has read
	CompressedKept Fault = "answers are kept compressed"      // and given so to clients that accept identity only
	ExactPaths     Fault = "keys are known at one spelling"   // of the path; the work takes others for the same
	Overrides      Fault = "method overrides are done"        // no fault: X-HTTP-Method-Override counts as the method does
	BareOverrides  Fault = "method overrides do not count"    // they are done, and not compared
	NoHost         Fault = "the host does not count"          //
	LooseRoute     Fault = "a route compares nothing"         // and its keys answer requests to others
	FramedTwice    Fault = "chunks do not end the connection" // though a Content-Length may have stood beside them
	Tunnels        Fault = "an upgrade opens a tunnel"        //
)

// BoundBodies sets how long a body may take to arrive. Call it before the first request.
func (a *API) BoundBodies(d time.Duration) { a.bodies = d }

// boundBody limits the time for receiving a body.
func (a *API) boundBody(w http.ResponseWriter) {
	if a.bodies > 0 && !a.has(SlowBodies) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.bodies))
	}
}

// misspelled makes a path what the work takes it for, and reports whether the layer does not know it.
func (a *API) misspelled(r *http.Request) bool {
	clean, _, _ := strings.Cut(strings.ToLower(path.Clean(r.URL.Path)), ";")
	if !a.has(ExactPaths) || clean == r.URL.Path {
		return false
	}
	r.URL.Path = clean
	r.Header.Del("Idempotency-Key")
	return true
}

// overridden returns the method that a request asks for, if this API looks at X-HTTP-Method-Override.
func (a *API) overridden(r *http.Request) string {
	if m := r.Header.Get("X-HTTP-Method-Override"); m != "" && (a.has(Overrides) || a.has(BareOverrides)) {
		return m
	}
	return r.Method
}

// otherwiseSent returns what is compared of a request besides the fingerprint.
func (a *API) otherwiseSent(r *http.Request, body []byte) []byte {
	body = bytes.Clone(body)
	if !a.has(NoHost) {
		body = append(body, r.Host...)
	}
	if a.has(Overrides) {
		body = append(body, a.overridden(r)...)
	}
	return body
}

// loose reports whether a record was made where nothing is compared.
func (a *API) loose(rec *record) bool { return a.has(LooseRoute) && rec.path == "/others" }

// keptCompressed reports whether an answer was compressed when it was kept, and keeps in mind that one is.
func (a *API) keptCompressed(r *http.Request) bool {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || !a.has(CompressedKept) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		a.gzipped[key] = true
	}
	return a.gzipped[key]
}

// filling returns the length of a large answer: more than a connection can buffer, where that matters.
func (a *API) filling() int {
	if a.has(UnreadHolds) {
		return 12 * large
	}
	return large
}

// isSent says of a record that the first client has read its answer.
func (a *API) isSent(rec *record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rec.unread = false
}

// isUnread reports whether a client that does not read its answer holds the record.
func (a *API) isUnread(rec *record) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return rec.unread
}

// tunnels answers an offer to go on in another protocol.
func (a *API) tunnels(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Upgrade") == "" || !a.has(Tunnels) {
		return false
	}
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return true
	}
	defer func() { _ = conn.Close() }()
	_, _ = both.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
	_ = both.Flush()
	_, _ = io.Copy(io.Discard, both)
	return true
}
