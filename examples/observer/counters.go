package main

import (
	"context"
	"expvar"
	"log"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

// counters counts events by kind: attempt_started is a miss, answer_replayed a hit, and so on. An observer must not
// block, and a map of atomic counters does not.
type counters struct{ byKind expvar.Map }

func newCounters() *counters {
	c := new(counters)
	c.byKind.Init()
	return c
}

// Observe implements retrysafe.Observer. It also logs events that need attention. A Key is logged as its digest.
func (c *counters) Observe(_ context.Context, e retrysafe.Event) {
	c.byKind.Add(e.Kind.String(), 1)
	switch e.Kind {
	case retrysafe.StoreFailed, retrysafe.SaveFailed, retrysafe.SaveAbandoned, retrysafe.LeaseTaken, retrysafe.WorkUnknown:
		log.Printf("%s: key %s, attempt %d: %v", e.Kind, e.Key, e.Attempt, e.Err)
	}
}

// ServeHTTP serves the counters as a JSON object.
func (c *counters) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write([]byte(c.byKind.String()))
}
