package model

import "testing"

// Seen to fail with tour.toMissing returning no way from a world whose own edges were taken.
func TestCoverTakesEveryTransition(t *testing.T) {
	for _, scope := range Stores {
		all := 0
		for _, out := range scope.graph() {
			all += len(out)
		}
		taken, steps := map[string]bool{}, 0
		traces := scope.Cover()
		for _, trace := range traces {
			w := World{}
			for _, a := range trace {
				taken[w.Canonical()+a.String()] = true
				w, _ = w.Do(a)
				steps++
			}
		}
		if len(taken) != all {
			t.Errorf("%d of %d transitions are taken", len(taken), all)
		}
		t.Logf("%+v: %d transitions in %d traces with %d steps", scope, all, len(traces), steps)
	}
}
