package target

import (
	"fmt"
	"net/http"
)

// Faults of who may see what.
const (
	AuthLast     Fault = "keys before callers"             // the key is looked up before anybody asks who the caller is
	SharedKeys   Fault = "keys are shared, callers differ" // another caller's key is in the way
	LeaksKey     Fault = "an error shows the key"
	LeaksRequest Fault = "an error shows the first request"
	LeaksAnswer  Fault = "an error shows the first answer"
)

// isNobody reports whether a credential is none of those that may call.
func isNobody(credential string) bool { return credential == "" || credential == "Bearer revoked" }

// leaks refuses another request under the same key, and says too much.
func (a *API) leaks(w http.ResponseWriter, r *http.Request, rec *record) bool {
	var detail string
	switch {
	case !rec.ended():
		return false
	case a.has(LeaksKey):
		detail = "The key " + r.Header.Get("Idempotency-Key") + " was used with another request."
	case a.has(LeaksRequest):
		detail = "The first request was " + string(rec.request)
	case a.has(LeaksAnswer):
		detail = "The first answer was " + string(rec.body)
	default:
		return false
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	fmt.Fprintf(w, `{"type":"/policy#key-reused","status":422,"detail":%q}`, detail)
	return true
}
