package memstore_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Heartbeats, steps and other keys wake no waiter. Seen to fail with a wake in every Extend.
func TestWakesOnlyForCause(t *testing.T) {
	s, clock := open(memstore.Options{})
	changed, stop, err := s.Watch(ctx, retrysafe.Key{ID: "k"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	l := take(t, s, "k")
	other := take(t, s, "other")
	for range 3 {
		if err := s.Extend(ctx, l, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Checkpoint(ctx, l, retrysafe.StepResult{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	complete(t, s, other, "answer")
	clock.now = time.Minute
	select {
	case <-changed:
		t.Error("got a value without cause")
	default:
	}
	// Two causes before the channel is read are one value; a repeated completion is none.
	if err := s.Extend(ctx, l, 0); err != nil {
		t.Fatal(err)
	}
	complete(t, s, l, "answer")
	<-changed
	complete(t, s, l, "repeated")
	select {
	case <-changed:
		t.Error("got a second value")
	default:
	}
}
