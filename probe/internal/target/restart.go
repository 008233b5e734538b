package target

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"
)

// Faults that a crash or a dead store brings out.
const (
	Forgetful   Fault = "a restart forgets the keys"    // they are in memory only
	RunsBlindly Fault = "abandoned keys run again"      // though the work may have been done
	StaysLocked Fault = "a crash blocks the key"        // one duration for lease and retention
	FailsOpen   Fault = "without a store it runs"       // unprotected, and no answer says so
	PinsOutage  Fault = "an outage is the answer"       // it is saved, and replayed when the store is back
	RunsUnsaved Fault = "without a store it runs first" // and then says that it failed
	HangsDown   Fault = "without a store it hangs up"   // no answer
	CannotTell  Fault = "a crash is an error"           // that says nothing of what happened
)

// lease is how long a key stays in flight after its process has died.
const lease = 400 * time.Millisecond

// life is the time between two crashes. What runs in it ends with it.
type life struct {
	died chan struct{} // closed when it is over
	at   time.Time     // when that was
}

// newLife returns the life of a process that has just started.
func newLife() *life { return &life{died: make(chan struct{})} }

// over reports whether the process has died since.
func (l *life) over() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.died:
		return true
	default:
		return false
	}
}

type lifeKey struct{}

// inThisLife returns a request whose context ends when the process dies.
func (a *API) inThisLife(r *http.Request) *http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return r.WithContext(context.WithValue(r.Context(), lifeKey{}, a.life))
}

// lifeOf returns the life in which a request arrived.
func lifeOf(r *http.Request) *life {
	l, _ := r.Context().Value(lifeKey{}).(*life)
	return l
}

// Restart ends the API as a crash does, and starts it again: what was being worked on goes no further, connections
// are cut. Records are kept, and effects.
func (a *API) Restart(s *httptest.Server) {
	a.mu.Lock()
	a.life.at = time.Now()
	close(a.life.died)
	a.life = newLife()
	if a.has(Forgetful) {
		a.records = map[string]*record{}
	}
	a.mu.Unlock()
	s.CloseClientConnections()
}

// abandoned answers for a key whose process has died.
func (a *API) abandoned(w http.ResponseWriter, rec *record) bool {
	if !rec.life.over() || a.has(SentAgain) {
		return false
	}
	switch {
	case a.has(StaysLocked) || time.Since(rec.life.at) < lease:
		a.conflict(w)
	case a.has(CannotTell):
		problem(w, http.StatusBadGateway, "broken", "no answer from the backend")
	default:
		problem(w, http.StatusInternalServerError, "outcome-unknown", "How far the first request came is unknown.")
	}
	return true
}

// runsBlindly reports whether a claim takes over what has been abandoned. a.mu is held.
func (a *API) runsBlindly(rec *record) bool {
	return a.has(RunsBlindly) && rec.life.over() && time.Since(rec.life.at) >= lease
}

// StopStore makes the records unreachable until StartStore.
func (a *API) StopStore() { a.setDown(true) }

// StartStore makes them reachable again.
func (a *API) StartStore() { a.setDown(false) }

// setDown makes the store unreachable or brings it back.
func (a *API) setDown(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
}

// lacksStore answers a request with a key while the records cannot be reached.
func (a *API) lacksStore(w http.ResponseWriter, r *http.Request) bool {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || !a.cannotLook(key) {
		return false
	}
	switch {
	case a.has(FailsOpen):
		a.unprotected(w, r)
		return true
	case a.has(HangsDown):
		panic(http.ErrAbortHandler)
	case a.has(RunsUnsaved):
		a.unprotected(httptest.NewRecorder(), r)
	}
	problem(w, http.StatusServiceUnavailable, "store-unavailable", "Keys cannot be looked up.")
	return true
}

// cannotLook reports whether the store is down, or was when the key came first and that has been kept.
func (a *API) cannotLook(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down && a.has(PinsOutage) {
		a.pinned[key] = true
	}
	return a.down || a.pinned[key]
}

// unprotected serves a request as if it had no key.
func (a *API) unprotected(w http.ResponseWriter, r *http.Request) {
	r = r.Clone(r.Context())
	r.Header.Del("Idempotency-Key")
	a.serve(w, r)
}
