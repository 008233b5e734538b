//go:build !race

// With the race detector sync.Pool drops objects at random, so allocations are counted without it.

package main

import "testing"

// Seen to fail with the pool of exchanges taken out of httpsafe, and with Meta and Body cloned apart in Result.Clone.
func TestAllocationsOfTheMiddleware(t *testing.T) {
	answer, err := middleware{Rounds: 1, Calls: 5000, OursOnly: true}.play(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for kind, most := range map[requestKind]float64{freshKey: 10, replayedKey: 4, withoutKey: 0} {
		if got := answer.(middlewareFound).Ours[kind].Allocs[0]; got > most {
			t.Errorf("%s: %v allocations over the bare handler, want at most %v", kind, got, most)
		}
	}
}
