package target

import (
	"fmt"
	"net/http"
	"time"
)

// Faults of the layer when several requests come at once, or one is lost. LookThenRun, OwnConflict and ClientsEnd are
// others.
const (
	LocalLock    Fault = "the lock is local"             // two processes share the records, not who is at work
	ToldToWait   Fault = "the owner waits for itself"    // it is told that its own request is in flight
	Waits        Fault = "retries wait"                  // for the first one's answer: not wrong
	RacesBreak   Fault = "a race is an error"            // a duplicate in flight is answered with 500
	BareConflict Fault = "conflicts say nothing of when" // no Retry-After
	TeapotWaits  Fault = "conflicts have another status" // 418
	ShedsLoad    Fault = "duplicates are too many"       // in flight they are refused with 503: of a crowd not wrong
	HalfOwns     Fault = "a half-sent request owns"      // the key, until it is whole or gone
	HalfKeeps    Fault = "a half-sent request keeps"     // the key for ever
	HalfBlocks   Fault = "a half-sent request blocks"    // others, which hang until it is whole or gone
	LastID       Fault = "the last ID is shared"         // answers show what was created last
	// of many requests at once, some are not carried out and yet confirmed
	DropsMany   Fault = "many are too many"
	DiesWithout Fault = "the work dies with the client" // and its key stays in flight
)

// Faults in what is kept.
const (
	KeepsRefusals   Fault = "401 and 429 are the answer" // they are saved and replayed
	ReleasesErrors  Fault = "4xx frees the key"          // not wrong under ietf, wrong for stripe
	ReleasesUnsure  Fault = "an uncertain 5xx frees the key"
	Releases5xx     Fault = "5xx frees the key" // when nothing happened: not wrong under ietf, wrong for stripe
	SecondBreaksSo  Fault = "each 5xx is another one"
	SecondSucceeds  Fault = "what failed succeeds"
	InvalidHappens  Fault = "invalid requests have effects"
	FreesAndForgets Fault = "invalid requests keep no key" // right: a request that was never carried out frees it
)

// latency is how long a slow store takes: a fault that is a race needs time to be seen.
const latency = 400 * time.Millisecond

// effect makes a thing and takes the time that it takes. A process that dies goes no further.
func (a *API) effect(r *http.Request) int64 {
	if a.has(MarkedFirst) {
		a.linger(r)
		return a.happens()
	}
	n := a.happens()
	if a.has(DropsMany) && n%7 == 0 {
		a.effects.Add(-1)
		return time.Now().UnixNano()
	}
	a.linger(r)
	if a.has(LastID) {
		return a.effects.Load()
	}
	return n
}

// linger waits for as long as slow work takes. With some faults all work is slow, so that requests overlap.
func (a *API) linger(r *http.Request) {
	var d time.Duration
	switch {
	case r.URL.Path == "/things/limited": // the limit is not reached by what takes long
		return
	case r.URL.Path == "/things/slow":
		d = slow
	case a.has(LookThenRun), a.has(LocalLock), a.has(LastID), a.has(DiesWithout):
		d = latency
	default:
		return
	}
	var left, died <-chan struct{}
	if a.has(DiesWithout) {
		left = r.Context().Done()
	}
	if l := lifeOf(r); l != nil {
		died = l.died
	}
	select {
	case <-time.After(d):
	case <-left:
		panic(http.ErrAbortHandler)
	case <-died:
		if a.has(SentAgain) {
			a.happens()
			return
		}
		panic(http.ErrAbortHandler)
	}
}

// beforeSave runs between the end of the work and the saving of its answer, where several faults do their damage.
func (a *API) beforeSave(r *http.Request) {
	if a.has(ClientsEnd) && r.URL.Path != "/things/limited" {
		select {
		case <-r.Context().Done():
		case <-time.After(latency):
		}
	}
	if lifeOf(r).over() && !a.has(SentAgain) {
		panic(http.ErrAbortHandler)
	}
}

// elsewhere reports whether a record is of a request that another process is at work on, and which this one does not
// see. a.mu is held.
func (a *API) elsewhere(rec *record) bool {
	return a.has(LocalLock) && !rec.ended() && rec.process != a.claims%2
}

// inFlight answers a retry while the first request is being carried out.
func (a *API) inFlight(w http.ResponseWriter, r *http.Request, rec *record) {
	a.meet(rec)
	if a.acknowledges(w) || a.abandoned(w, rec) {
		return
	}
	if a.has(OwnConflict) {
		a.mu.Lock()
		rec.conflicted = true
		a.mu.Unlock()
	}
	switch {
	case a.has(Waits):
		select {
		case <-rec.done:
			a.replay(w, r, rec)
		case <-r.Context().Done():
		}
	case a.has(RacesBreak):
		problem(w, http.StatusInternalServerError, "broken", "duplicate key value violates unique constraint")
	case a.has(TeapotWaits):
		problem(w, http.StatusTeapot, "request-in-flight", "A request with this key is outstanding.")
	case a.has(ShedsLoad):
		problem(w, http.StatusServiceUnavailable, "overloaded", "Too many requests.")
	default:
		a.conflict(w)
	}
}

// conflict refuses a request whose key is in flight.
func (a *API) conflict(w http.ResponseWriter) {
	if !a.has(BareConflict) {
		w.Header().Set("Retry-After", "1")
	}
	problem(w, http.StatusConflict, "request-in-flight", "A request with this key is outstanding.")
}

// conflicted reports whether the conflict that a retry met is what is known of a key.
func (a *API) conflicted(rec *record) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return rec.conflicted
}

// letsGo reports whether an answer frees its key though it need not.
func (a *API) letsGo(status int) bool {
	switch {
	case status >= 500:
		return a.has(ReleasesUnsure) || a.has(Releases5xx)
	case status == http.StatusBadRequest && a.has(FreesAndForgets):
		return true
	}
	return status >= 400 && a.has(ReleasesErrors)
}

// repeatsRefusal answers with what was refused before: a layer outside of the one that knows callers has kept it.
func (a *API) repeatsRefusal(w http.ResponseWriter, r *http.Request) bool {
	a.mu.Lock()
	rec := a.refusals[r.Header.Get("Idempotency-Key")]
	a.mu.Unlock()
	if rec != nil {
		answer(w, rec, false)
	}
	return rec != nil
}

// keepRefusal keeps what was refused.
func (a *API) keepRefusal(r *http.Request, o *overheard) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || o.status != http.StatusUnauthorized && o.status != http.StatusTooManyRequests {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusals[key] = &record{status: o.status, header: o.Header().Clone(), body: o.body}
}

// overheard hands an answer on and remembers it.
type overheard struct {
	http.ResponseWriter
	status int
	body   []byte
}

// WriteHeader implements http.ResponseWriter.
func (o *overheard) WriteHeader(status int) {
	o.status = status
	o.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (o *overheard) Write(p []byte) (int, error) {
	o.body = append(o.body, p...)
	return o.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (o *overheard) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// limited answers 429 to more than a few requests in a short time.
func (a *API) limited(w http.ResponseWriter) bool {
	const some, window = 5, 300 * time.Millisecond
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.windowAt) > window {
		a.windowAt, a.inWindow = time.Now(), 0
	}
	if a.inWindow++; a.inWindow <= some {
		return false
	}
	problem(w, http.StatusTooManyRequests, "too-many", "Not so fast.")
	return true
}

// failing refuses a request for a business reason, unless a fault lets the second attempt succeed.
func (a *API) failing(w http.ResponseWriter) bool {
	a.mu.Lock()
	a.failures++
	again := a.failures > 1
	a.mu.Unlock()
	if again && a.has(SecondSucceeds) {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusPaymentRequired)
	fmt.Fprint(w, `{"error":"no money"}`)
	return true
}
