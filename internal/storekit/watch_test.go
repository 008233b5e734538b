package storekit

import (
	"testing"

	"github.com/retrysafe/retrysafe"
)

// Seen to fail with the delete in remove taken out.
func TestStopFreesTheWatch(t *testing.T) {
	var w Watches
	d := retrysafe.Key{ID: "k"}.Digest()
	var stops []func()
	for range 3 {
		_, stop := w.Add(d)
		stops = append(stops, stop)
	}
	for i, want := range []struct{ keys, watches int }{{1, 2}, {1, 1}, {0, 0}} {
		stops[i]()
		if len(w.byKey) != want.keys || len(w.byKey[d]) != want.watches {
			t.Errorf("after %d stops: got %d keys, %d watches; want %v", i+1, len(w.byKey), len(w.byKey[d]), want)
		}
	}
}
