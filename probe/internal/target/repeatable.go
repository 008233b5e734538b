package target

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Faults of an API with repeatable requests.
const (
	// of before the tracked window: expired requests run again
	StaleDates     Fault = "stale dates are taken"
	FutureDates    Fault = "future dates are taken"                // too far ahead to be a clock that is wrong
	AnyDates       Fault = "dates are not read"                    // nor looked at
	OneHeader      Fault = "one header is enough"                  // the other one is not missed
	LonelyDates    Fault = "a date without an ID is not missed"    // the request is taken as an ordinary one
	PlainRefusals  Fault = "refusals have no Repeatability-Result" // clients cannot tell whose they are
	IgnoredHeaders Fault = "unsupported is ignored"                // headers are ignored where they are not supported
)

// window is how long a Repeatable without a retention tracks requests.
const window = 24 * time.Hour

// Repeatable is an API with OASIS Repeatable Requests 1.0: profile repeatability.
type Repeatable struct{ *API }

// StartRepeatable serves one on loopback until the test ends. Keep of api says how long it tracks requests.
func StartRepeatable(t testing.TB, api *API) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(Repeatable{api})
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (a Repeatable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		a.refuse(w, http.StatusBadRequest, "the body could not be read")
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	caller := r.Header.Get("Authorization")
	if caller == "" || caller == "Bearer revoked" {
		a.refuse(w, http.StatusUnauthorized, "who are you?")
		return
	}
	ids, sent := r.Header.Values("Repeatability-Request-ID"), r.Header.Values("Repeatability-First-Sent")
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	if safe || len(ids)+len(sent) == 0 || a.has(LonelyDates) && len(ids) == 0 {
		a.work(w, r, body)
		return
	}
	if r.URL.Path == "/plain" {
		a.unsupported(w, r, body)
		return
	}
	if status, why := a.check(ids, sent); status != 0 {
		a.refuse(w, status, why)
		return
	}
	name := caller + "\x00" + ids[0]
	if a.forgotten(name, r.Header.Get("Repeatability-First-Sent")) {
		a.refuse(w, http.StatusPreconditionFailed, "the request is too old to know whether it ran")
		return
	}
	a.repeat(w, r, name, body)
}

// unsupported serves a route that does not support repeatable requests.
func (a Repeatable) unsupported(w http.ResponseWriter, r *http.Request, body []byte) {
	if a.has(IgnoredHeaders) {
		a.work(w, r, body)
		return
	}
	a.refuse(w, http.StatusNotImplemented, "this cannot be repeated")
}

// check says with what the headers of a request are refused; 0: they are right.
func (a Repeatable) check(ids, sent []string) (status int, why string) {
	if len(ids) != 1 || len(sent) != 1 && !a.has(OneHeader) {
		return http.StatusBadRequest, "both headers are needed, once"
	}
	if len(ids[0]) != 36 {
		return http.StatusBadRequest, "the ID is not a UUID"
	}
	if len(sent) == 0 || a.has(AnyDates) {
		return 0, ""
	}
	at, err := http.ParseTime(sent[0])
	switch {
	case err != nil:
		return http.StatusBadRequest, "the date is not one"
	case at.After(time.Now().Add(time.Hour)) && !a.has(FutureDates):
		return http.StatusBadRequest, "the date is in the future"
	}
	return 0, ""
}

// forgotten reports whether a request is so old that its record may be gone.
func (a Repeatable) forgotten(name, sent string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if rec, ok := a.records[name]; ok && !a.outdated(rec) {
		return false
	}
	at, err := http.ParseTime(sent)
	return err == nil && time.Since(at) > a.tracked() && !a.has(StaleDates) && !a.has(AnyDates)
}

// tracked returns the length of the tracked window.
func (a Repeatable) tracked() time.Duration {
	if a.keep > 0 {
		return a.keep
	}
	return window
}

// repeat runs the work for an ID, or says what is known of it.
func (a Repeatable) repeat(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	fingerprint := fingerprint(r, body)
	rec, mine := a.claim(name, fingerprint)
	switch {
	case mine:
		a.run(w, r, name, rec, body)
	case rec.fingerprint != fingerprint:
		a.refuse(w, http.StatusBadRequest, "the ID belongs to another request")
		return
	case !rec.ended():
		a.refuse(w, http.StatusConflict, "the request is being worked on")
		return
	}
	w.Header().Set("Repeatability-Result", "accepted")
	answer(w, rec, false)
}

// refuse answers with Repeatability-Result: rejected.
func (a Repeatable) refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	if !a.has(PlainRefusals) {
		w.Header().Set("Repeatability-Result", "rejected")
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%q,"message":%q}}`, http.StatusText(status), why)
}
