package target

import (
	"net/http"
	"time"
)

// Faults at the end of a retention.
const (
	EndsEarly     Fault = "the retention ends early"      // after half of it
	Slides        Fault = "the retention slides"          // each replay begins it anew: not wrong, but to be seen
	NeverForgets  Fault = "the retention does not end"    // longer than was said
	ForgetsBadly  Fault = "expired records stay in place" // they are not replaced: each retry runs again
	BreaksOnOld   Fault = "expired keys break it"         // an expired record is answered with 500
	ExpiredIsSaid Fault = "expired keys are refused"      // with 422, as servers do that leave a tombstone: right
	NoPolicy      Fault = "no policy"                     // the policy is not published
	PolicySilent  Fault = "the policy is silent"          // it says nothing of how long keys are kept
)

// Keep sets how long answers are replayed. Call it before the first request.
func (a *API) Keep(retention time.Duration) { a.keep = retention }

// expired reports whether a record is to be replaced. a.mu is held.
func (a *API) expired(rec *record) bool {
	return a.outdated(rec) && !a.has(ExpiredIsSaid) && !a.has(BreaksOnOld)
}

// outdated reports whether the retention of a record has ended. a.mu is held.
func (a *API) outdated(rec *record) bool {
	keep := a.keep
	switch {
	case keep == 0 || a.has(NeverForgets) || !rec.ended():
		return false
	case a.has(EndsEarly):
		keep /= 2
	}
	return time.Since(rec.endedAt) > keep
}

// saveUnlessOld puts a record in its place. a.mu is held.
func (a *API) saveUnlessOld(name string, rec *record) {
	if old, ok := a.records[name]; ok && old != rec && a.has(ForgetsBadly) {
		return
	}
	a.records[name] = rec
}

// refuseOld answers for a record whose retention has ended, and that stands in the way of a new one.
func (a *API) refuseOld(w http.ResponseWriter, rec *record) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.outdated(rec):
		if a.has(Slides) && rec.ended() {
			rec.endedAt = time.Now()
		}
		return false
	case a.has(BreaksOnOld):
		problem(w, http.StatusInternalServerError, "broken", "duplicate key")
	default:
		problem(w, http.StatusUnprocessableEntity, "key-expired", "The key has expired.")
	}
	return true
}

// policy writes the page about the API's rules.
func (a *API) policy(w http.ResponseWriter) {
	switch {
	case a.has(NoPolicy):
		w.WriteHeader(http.StatusNotFound)
	case a.has(PolicySilent):
		_, _ = w.Write([]byte("Send a key with each request."))
	default:
		_, _ = w.Write([]byte("Keys are kept for 24 hours."))
	}
}
