//go:build !race

// With the race detector sync.Pool drops objects at random, so allocations are counted without it.

package main

import (
	"encoding/json"
	"testing"
)

// Seen to fail with the pool of exchanges taken out of httpsafe, and with Meta and Body cloned apart in Result.Clone.
func TestAllocationsOfTheMiddleware(t *testing.T) {
	in, err := json.Marshal(middlewareAsked{Rounds: 1, Calls: 5000, OursOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := middlewareRole(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	for kind, most := range map[requestKind]float64{freshKey: 9, replayedKey: 3, withoutKey: 0} {
		if got := answer.(middlewareFound).Ours[kind].Allocs[0]; got > most {
			t.Errorf("%s: %v allocations over the bare handler, want at most %v", kind, got, most)
		}
	}
}
