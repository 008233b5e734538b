package target

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Faults that others have had, and that no other file is about.
const (
	// its answer is lost, the driver asks again, and the owner is told to wait for itself
	ClaimLost Fault = "a claim meets itself"
	// saving another answer fails after the work, and its key is free again
	OnlyJSON Fault = "only JSON can be kept"
	// a key is done when it is taken: a retry is acknowledged, whatever becomes of the work
	MarkedFirst Fault = "marked before the work"
	HashCut     Fault = "the hash of a cut body" // bodies are compared up to 4 KiB
	EatsBody    Fault = "the body is eaten"      // what reads it for the comparison leaves nothing for the work
	// when the connection to the work dies, the client library sends the request once more
	SentAgain  Fault = "sent again behind the layer"
	RunsTwice  Fault = "one request runs twice" //
	OnlySaysSo Fault = "confirmed, not done"    //
	BodyIsKey  Fault = "the body decides"       // not the key
	// no fault: the rest is refused with 429, and told when to come again
	Limits       Fault = "so many at a time"
	LimitsMutely Fault = "so many, and no word when" // likewise, without Retry-After
	LimitsAlways Fault = "so many, and no more"      // a quota that is used up
	// no fault: Idempotency-Expires in replays, in the place of another marker
	SaysUntil  Fault = "answers say how long"
	SaysAlways Fault = "first answers say how long" // likewise, in first answers too: what marks all marks none
)

// cut is how much of a body an API with HashCut compares.
const cut = 4 << 10

// loses reports whether the answer to a claim was lost. It waits until another request has met the claim, so that all
// are told to wait.
func (a *API) loses(r *http.Request, rec *record) bool {
	if !a.has(ClaimLost) || r.URL.Path == "/things/limited" {
		return false
	}
	select {
	case <-rec.met:
		return true
	case <-time.After(latency / 2): // less than it takes until a duplicate of slow work comes
		return false
	}
}

// meet notes that another request has found a record in flight.
func (a *API) meet(rec *record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-rec.met:
	default:
		close(rec.met)
	}
}

// acknowledges answers a retry although it is not known yet how the work ends.
func (a *API) acknowledges(w http.ResponseWriter) bool {
	if !a.has(MarkedFirst) {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"seen":true}`))
	return true
}

// nameOf returns the name under which a record is saved.
func (a *API) nameOf(caller, key string, body []byte) string {
	if a.has(BodyIsKey) {
		return fmt.Sprintf("%s\x00%x", caller, sha256.Sum256(body))
	}
	return caller + "\x00" + key
}

// handed returns the body that the work receives.
func (a *API) handed(body []byte) []byte {
	if a.has(EatsBody) {
		return nil
	}
	return body
}

// happens counts an effect.
func (a *API) happens() int64 {
	switch {
	case a.has(OnlySaysSo):
		return time.Now().UnixNano()
	case a.has(RunsTwice):
		a.effects.Add(1)
	}
	return a.effects.Add(1)
}

// unkept reports whether an answer cannot be saved for what it is.
func (a *API) unkept(rec *record) bool {
	return a.has(OnlyJSON) && rec.status < 300 && !json.Valid(rec.body)
}

// overrun refuses requests above a rate limit.
func (a *API) overrun(w http.ResponseWriter) bool {
	if !a.has(Limits) && !a.has(LimitsMutely) && !a.has(LimitsAlways) {
		return false
	}
	const some, window = 8, 200 * time.Millisecond
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.rateAt) > window && !a.has(LimitsAlways) {
		a.rateAt, a.inRate = time.Now(), 0
	}
	if a.inRate++; a.inRate <= some {
		return false
	}
	if a.has(Limits) {
		w.Header().Set("Retry-After", "1")
	}
	problem(w, http.StatusTooManyRequests, "too-many", "Not so fast.")
	return true
}

// addExpiry adds until when a key is kept.
func (a *API) addExpiry(w http.ResponseWriter, replayed bool) {
	if a.has(SaysAlways) || a.has(SaysUntil) && replayed {
		w.Header().Set("Idempotency-Expires", time.Now().Add(24*time.Hour).UTC().Format(http.TimeFormat))
	}
}
