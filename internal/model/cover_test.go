package model

import (
	"math/rand/v2"
	"testing"
)

func TestCoverTakesEveryTransition(t *testing.T) {
	missing := map[string]bool{}
	for _, s := range Stores {
		transition := func(w World, a Action) (World, error) {
			to, _ := w.Do(a)
			if len(to.Leases) > s.Leases {
				return w, nil
			}
			missing[w.Canonical()+a.String()] = true
			return to, nil
		}
		if _, _, err := Explore(World{}, func(w World) string { return w.Canonical() }, s.Actions, transition); err != nil {
			t.Fatal(err)
		}
	}
	all, traces, steps := len(missing), 0, 0
	for trace := range Cover(rand.New(rand.NewPCG(1, 2))) {
		traces++
		w := World{}
		for _, a := range trace {
			delete(missing, w.Canonical()+a.String())
			w, _ = w.Do(a)
			steps++
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d transitions are not taken", len(missing), all)
	}
	t.Logf("%d transitions in %d traces with %d steps", all, traces, steps)
}
