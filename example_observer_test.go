package retrysafe_test

import (
	"context"
	"expvar"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// counters counts events by kind: attempt_started is a miss, answer_replayed a hit, and so on. An observer must not
// block, and a map of atomic counters does not. String returns the counters as JSON: serve them on an address that is
// not public, or publish them with expvar.
type counters struct{ expvar.Map }

// Observe implements retrysafe.Observer. It also logs events that need attention. A Key is logged as its digest.
func (c *counters) Observe(_ context.Context, e retrysafe.Event) {
	c.Add(e.Kind.String(), 1)
	switch e.Kind {
	case retrysafe.StoreFailed, retrysafe.SaveFailed, retrysafe.SaveAbandoned, retrysafe.LeaseTaken, retrysafe.WorkUnknown:
		log.Printf("%s: key %s, attempt %d: %v", e.Kind, e.Key, e.Attempt, e.Err)
	}
}

func ExampleObserver() {
	seen := new(counters)
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{Observer: seen, SweepEvery: -1})
	pay := func(fingerprint retrysafe.Fingerprint) {
		request := retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: "order-1"}, Fingerprint: fingerprint}
		_, _ = retrysafe.Do(context.Background(), guard, request,
			func(context.Context, *retrysafe.Attempt) (string, error) { return "paid", nil })
	}
	pay("raw1:order-1")
	pay("raw1:order-1")
	pay("raw1:order-1")
	pay("raw1:order-2")
	fmt.Println(seen)
	// Output: {"answer_replayed": 2, "attempt_started": 1, "mismatch_refused": 1, "work_succeeded": 1}
}
