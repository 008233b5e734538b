package target

import (
	"fmt"
	"net/http"
	"strings"
)

// Faults of who may see what.
const (
	AuthLast     Fault = "keys before callers"             // the key is looked up before the caller is known
	SharedKeys   Fault = "keys are shared, callers differ" // another caller's key is in the way
	LeaksKey     Fault = "an error shows the key"
	LeaksRequest Fault = "an error shows the first request"
	LeaksAnswer  Fault = "an error shows the first answer"

	CredentialIsCaller Fault = "the credential is the caller" // each fresh token is another caller
	// who sends no credential may call, and is the same caller as all others
	LetsAllIn    Fault = "unknown callers are one"
	ReplaysFirst Fault = "replays are not authorised" // whether the credential is still good
)

// Revoke takes a credential away until Restore.
func (a *API) Revoke(credential string) { a.setRevoked(credential, true) }

// Restore gives it back.
func (a *API) Restore(credential string) { a.setRevoked(credential, false) }

// setRevoked revokes a credential or restores it.
func (a *API) setRevoked(credential string, revoked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked[credential] = revoked
}

// isNobody reports whether a caller is none of those that may call.
func (a *API) isNobody(caller string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return caller == "" && !a.has(LetsAllIn) || caller == "Bearer revoked" || a.revoked[caller] && !a.has(ReplaysFirst)
}

// lockedOut refuses a caller whose credential is revoked. The check sits in the work, so that a layer in front of it
// can forget it.
func (a *API) lockedOut(w http.ResponseWriter, r *http.Request) bool {
	a.mu.Lock()
	out := a.revoked[a.callerOf(r.Header.Get("Authorization"))]
	a.mu.Unlock()
	if out {
		problem(w, http.StatusUnauthorized, "unauthorized", "Who are you?")
	}
	return out
}

// callerOf returns the caller that a credential belongs to. What follows a dot in the credential changes from request
// to request, as a token does.
func (a *API) callerOf(credential string) string {
	name, _, _ := strings.Cut(credential, ".")
	if a.has(CredentialIsCaller) {
		return credential
	}
	return name
}

// leaks refuses another request under the same key with an error that reveals too much.
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
