package target

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
)

// ServeHTTP is the web server in front of the API: what it does is no matter of keys, or must be done before anything
// is read.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = a.inThisLife(r)
	a.relocate(r)
	if a.overrun(w) || a.ownsEarly(w, r) || a.lacksStore(w, r) || a.repeatsRefusal(w, r) {
		return
	}
	if a.has(KeepsRefusals) {
		heard := &overheard{ResponseWriter: w}
		defer func() { a.keepRefusal(r, heard) }()
		w = heard
	}
	if a.has(MarkerAlways) {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" && a.has(KeysEchoed) {
		w.Header().Set("Idempotency-Key", key)
	}
	if a.tunnels(w, r) {
		return
	}
	a.boundBody(w)
	if len(r.TransferEncoding) > 0 && !a.has(FramedTwice) {
		w.Header().Set("Connection", "close") // package net/http does not say whether there was a Content-Length, too
	}
	if a.misspelled(r) {
		a.serve(w, r)
		return
	}
	if a.preflight(w, r) || a.tooEarly(w, r) || a.refusesHead(w, r) || a.redirects(w, r) || a.refusesUnkeyed(w, r) ||
		a.preconditionFails(w, r) {
		return
	}
	a.seeMore(r)
	if a.has(NewJob) && r.URL.Path == "/jobs" {
		a.special(w, r, nil)
		return
	}
	if a.keptCompressed(r) || strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		a.compress(w, r)
		return
	}
	a.serve(w, r)
}

// preflight answers what browsers ask before they send a key.
func (a *API) preflight(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Origin") == "" {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Access-Control-Expose-Headers", "Idempotent-Replayed, Location")
	if r.Method != http.MethodOptions {
		return false
	}
	w.Header().Set("Access-Control-Allow-Headers", "Content-Type, Idempotency-Key")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// tooEarly refuses what may have been replayed by an attacker on the way (RFC 8470).
func (a *API) tooEarly(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Early-Data") != "1" || r.Method == http.MethodGet || a.has(Stored425) {
		return false
	}
	if a.has(EarlyTwice) {
		r.Header.Del("Idempotency-Key")
		return false
	}
	problem(w, http.StatusTooEarly, "early-data", "Send this when the handshake is over.")
	return true
}

// refusesHead answers a client that waits with its body, if the head is enough.
func (a *API) refusesHead(w http.ResponseWriter, r *http.Request) bool {
	lines := r.Header.Values("Idempotency-Key")
	if r.Header.Get("Expect") == "" || len(lines) == 0 || a.has(ReadsFirst) || a.has(AnyKey) {
		return false
	}
	key, ok := parseKey(lines)
	if !ok {
		problem(w, http.StatusBadRequest, "key-malformed", "The Idempotency-Key is malformed.")
		return true
	}
	a.mu.Lock()
	rec := a.records[r.Header.Get("Authorization")+"\x00"+key]
	a.mu.Unlock()
	if rec == nil || !a.has(TakesBody) {
		return false
	}
	a.endEarly(w, rec)
	return true
}

// redirects sends a client elsewhere, without anything being done or recorded.
func (a *API) redirects(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/moved" || a.has(RedirectKept) {
		return false
	}
	if a.has(RedirectRuns) {
		a.effects.Add(1)
	}
	to := "/things"
	if r.URL.RawQuery != "" && !a.has(QueryLost) {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusTemporaryRedirect)
	return true
}

// refusesUnkeyed refuses requests that have no key, where keys are required.
func (a *API) refusesUnkeyed(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost || r.Header.Get("Idempotency-Key") != "" {
		return false
	}
	switch {
	case a.has(RefusesLate):
		a.serve(httptest.NewRecorder(), r)
		problem(w, http.StatusBadRequest, "key-missing", "An Idempotency-Key is required.")
	case a.has(RefusesBare):
		w.WriteHeader(http.StatusBadRequest)
	case a.has(KeysRequired):
		problem(w, http.StatusBadRequest, "key-missing", "An Idempotency-Key is required.")
	default:
		return false
	}
	return true
}

// preconditionFails looks at If-Match before it is known whether this is a retry.
func (a *API) preconditionFails(w http.ResponseWriter, r *http.Request) bool {
	if !a.has(Precondition) || r.Method != http.MethodPatch || r.Header.Get("If-Match") == a.etag(r.URL.Path) {
		return false
	}
	w.WriteHeader(http.StatusPreconditionFailed)
	return true
}

// seeMore makes requests differ that are the same.
func (a *API) seeMore(r *http.Request) {
	differ := ""
	if a.has(FramingCount) && len(r.TransferEncoding) > 0 {
		differ = "chunked"
	}
	if a.has(CodingCounts) {
		differ = r.Header.Get("Accept-Encoding")
	}
	if differ != "" {
		r.URL.RawQuery = differ
	}
	if a.has(PayloadKeys) && r.Header.Get("Idempotency-Key") == "" {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Set("Idempotency-Key", fmt.Sprintf("%x", sha256.Sum256(body)))
	}
}

// compress answers with gzip. Keys know nothing of that: what they keep is not compressed.
func (a *API) compress(w http.ResponseWriter, r *http.Request) {
	out := httptest.NewRecorder()
	a.serve(out, r)
	for name, values := range out.Header() {
		w.Header()[name] = values
	}
	if a.has(GzipUnlabelled) {
		w.WriteHeader(out.Code)
		_, _ = w.Write(out.Body.Bytes())
		return
	}
	if !a.has(NoVary) {
		w.Header().Set("Vary", "Accept-Encoding")
	}
	if !a.has(NoLabel) {
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(out.Code)
	_, _ = w.Write(gzipped(out.Body.Bytes()))
}
