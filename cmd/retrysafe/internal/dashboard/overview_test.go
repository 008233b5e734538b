package dashboard

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// slowCount is a store that takes long to count its keys.
type slowCount struct {
	keys.Keys
	counts chan struct{} // receives a value when a count may end
}

func (s slowCount) Measure(ctx context.Context, how keys.Measure) (keys.Measured, error) {
	<-s.counts
	return s.Keys.Measure(ctx, how)
}

// The overview does not wait for a count of all keys: it has the unfinished ones, says that the store is counting, and has
// the other numbers later. A store that cannot count then is asked again.
//
// Seen to fail with get waiting for the answer however long it takes, and with the lists published after the count only.
func TestOverviewDoesNotWaitForCounts(t *testing.T) {
	store := memstore.New(memstore.Options{})
	slow := slowCount{keys.NewLocal(store, nil), make(chan struct{})}
	k := start(t, Options{Keys: slow})
	k.store = store
	k.dashboard.counts.patience = time.Millisecond
	k.abandon("acme", "waits")
	k.end("acme", "ends", "body")
	const counting = "The store is counting its keys"
	shows := func(part string) bool { return strings.Contains(textOf(k.get("/live")), part) }
	for !shows("abandoned 1 ") {
		time.Sleep(time.Millisecond)
	}
	k.wantText("while it counts", k.get("/"), counting, "Unfinished keys as of")
	if !shows("succeeded – ") || shows("All keys counted at") {
		t.Errorf("there is a number already: %s", textOf(k.get("/")))
	}
	slow.counts <- struct{}{}
	for shows(counting) {
		time.Sleep(time.Millisecond)
	}
	if !shows("succeeded 1 ") || !shows("All keys counted at") {
		t.Errorf("the number is missing: %s", textOf(k.get("/")))
	}
}
