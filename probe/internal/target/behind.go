package target

import (
	"fmt"
	"net/http"
	"strings"
)

// Faults in what becomes of a key when the work's answer does not come through to the layer.
const (
	LostFrees    Fault = "a lost answer frees the key"   // the connection behind has ended before the answer
	HalfFrees    Fault = "half an answer frees the key"  // or in the middle of it
	LateFrees    Fault = "a late answer frees the key"   // or the layer did not wait any more
	GatewayFrees Fault = "a gateway's 503 frees the key" // though it says nothing of whether the work was done
	// a request that did not reach the work gets the same error for ever
	UnsentKept     Fault = "what was never sent is kept"
	InnerConflict  Fault = "an inner layer's 409 is kept"        // which was the state of a moment
	SeeOtherFrees  Fault = "a 303 frees the key"                 // though it is the answer to work that was done
	UnknownMarked  Fault = "an unknown outcome is a replay"      // it has the marker of one
	UnknownBlames  Fault = "an unknown outcome is the client's"  // it is worded as a mistake in the request
	UnknownIs4xx   Fault = "an unknown outcome is 422"           // likewise
	UnknownDenied  Fault = "an unknown outcome was executed"     // says its header, and its body that it is unknown
	UnknownIsMute  Fault = "an unknown outcome is an error"      // that says nothing of what happened
	UnknownRetries Fault = "an unknown outcome is worth a retry" // no word that it stays
)

// fromBehind writes what the layer answers when the work has no answer, or none of its own. It reports whether the path
// is that of such work.
func (a *API) fromBehind(w http.ResponseWriter, r *http.Request, body []byte) bool {
	switch strings.TrimPrefix(r.URL.Path, "/things") {
	case "/unanswered", "/cut-off":
		a.effect(r)
		a.answerUnknown(w, http.StatusBadGateway, "upstream-failed")
	case "/late":
		a.effect(r)
		a.answerUnknown(w, http.StatusGatewayTimeout, "upstream-timeout")
	case "/unavailable":
		a.effect(r)
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "upstream connect error or disconnect/reset before headers")
	case "/unreached":
		if a.cameBefore(body) {
			return false
		}
		problem(w, http.StatusServiceUnavailable, "upstream-unreachable", "Nothing was sent.")
	case "/busy":
		if a.cameBefore(body) {
			return false
		}
		a.conflict(w)
	case "/see-other":
		w.Header().Set("Location", fmt.Sprintf("/things/thing-%d", a.effect(r)))
		w.WriteHeader(http.StatusSeeOther)
	default:
		return false
	}
	return true
}

// cameBefore reports whether the work has been asked for a body before.
func (a *API) cameBefore(body []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	came := a.came[string(body)]
	a.came[string(body)] = true
	return came
}

// keeps reports whether an answer from behind takes its key or frees it; known is false for the answers of work.
func (a *API) keeps(path string, status int) (keeps, known bool) {
	switch strings.TrimPrefix(path, "/things") {
	case "/unanswered":
		return !a.has(LostFrees), true
	case "/cut-off":
		return !a.has(HalfFrees), true
	case "/late":
		return !a.has(LateFrees), true
	case "/unavailable":
		return !a.has(GatewayFrees), true
	case "/see-other":
		return !a.has(SeeOtherFrees), true
	case "/unreached":
		return status < 300 || a.has(UnsentKept), true
	case "/busy":
		return status < 300 || a.has(InnerConflict), true
	}
	return false, false
}

// lost reports whether it is unknown how the work of a record ended, and answers so.
func (a *API) lost(w http.ResponseWriter, rec *record) bool {
	if !rec.lost || a.has(UnknownIsMute) {
		return false
	}
	if a.has(UnknownMarked) {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	a.answerUnknown(w, http.StatusInternalServerError, "outcome-unknown")
	return true
}

// answerUnknown says that it is unknown whether the work was done.
func (a *API) answerUnknown(w http.ResponseWriter, status int, slug string) {
	h := w.Header()
	kind := "api_error"
	h.Set("Idempotency-Status", "unknown")
	if a.has(UnknownDenied) {
		h.Set("Idempotency-Status", "executed")
	}
	if !a.has(UnknownRetries) {
		h.Set("Stripe-Should-Retry", "false")
	}
	if a.has(UnknownBlames) {
		kind = "invalid_request_error"
	}
	if a.has(UnknownIs4xx) {
		status = http.StatusUnprocessableEntity
	}
	if a.has(UnknownIsMute) {
		h.Del("Idempotency-Status")
		w.WriteHeader(status)
		return
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"/policy#%s","error":{"type":%q},"executed":"unknown"}`, slug, kind)
}
