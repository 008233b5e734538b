// Package target is an API that is safe to retry, and that can be told to have one fault or another: what the probe
// is tested against. A case that no fault fails proves nothing.
package target

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fault is a way to be wrong.
type Fault string

// API is an API in memory. Without faults it keeps the rules of profile ietf.
type API struct {
	faults  map[Fault]bool
	effects atomic.Int64
	keep    time.Duration // how long answers are replayed; 0: for ever
	bodies  time.Duration // how long a body may take; 0: for ever

	mu      sync.Mutex
	records map[string]*record
	things  map[string]string // what PUT made

	life     *life                    // since the last crash
	down     bool                     // the store
	pinned   map[string]bool          // keys that came while it was
	refusals map[string]*record       // that are kept though they should not be
	halves   map[string]chan struct{} // closed when a half-sent request is whole or gone
	came     map[string]bool          // bodies that the work was asked for
	revoked  map[string]bool          // credentials that were taken away
	gzipped  map[string]bool          // keys whose first answer was compressed
	claims   int
	failures int
	windowAt time.Time // of what is allowed before 429
	inWindow int
	rateAt   time.Time // of what is allowed of anything
	inRate   int

	pointer, query string              // where keys are, if not in the header
	sessions       map[string]*session // what must be created before it is completed
	fails          int                 // requests for a session that fail, and with which status
	failsWith      int
}

// record is what is known of a key.
type record struct {
	fingerprint string
	path        string        // of the first request
	request     []byte        // body of the first request
	done        chan struct{} // closed when there is an answer
	status      int           // 0: none yet
	header      http.Header
	body        []byte
	endedAt     time.Time
	refused     int           // how often another request came with its key
	life        *life         // in which it was claimed
	process     int           // of two, that claimed it
	lost        bool          // how the work ended is unknown
	unread      bool          // the answer is being sent
	conflicted  bool          // a retry came while it was in flight
	met         chan struct{} // closed when another request has come upon it
}

// Start serves an API on loopback until the test ends.
func Start(t testing.TB, faults ...Fault) (*API, *httptest.Server) {
	t.Helper()
	a := New(faults...)
	s := httptest.NewUnstartedServer(a)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return a, s
}

// New returns an API.
func New(faults ...Fault) *API {
	a := &API{faults: map[Fault]bool{}, records: map[string]*record{}, things: map[string]string{}}
	a.life, a.pinned, a.came, a.refusals, a.halves = newLife(), map[string]bool{}, map[string]bool{},
		map[string]*record{}, map[string]chan struct{}{}
	a.sessions = map[string]*session{}
	a.revoked, a.gzipped = map[string]bool{}, map[string]bool{}
	for _, f := range faults {
		a.faults[f] = true
	}
	return a
}

// Effects returns how many things have been created.
func (a *API) Effects() int64 { return a.effects.Load() }

// has reports whether the API has a fault.
func (a *API) has(f Fault) bool { return a.faults[f] }
