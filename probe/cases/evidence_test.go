package cases_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/probe"
)

// received counts what has come by itself.
type received struct{ counted }

func (received) Evidence() probe.Evidence { return probe.ByArrival }

func TestEvidence(t *testing.T) {
	t.Parallel()
	for want, change := range map[probe.Evidence]func(p place){
		probe.ByIdentity: blind, probe.ByCount: nil,
		probe.ByArrival: func(p place) { p.recipe.Count = received{counted{p.api}} },
	} {
		if o, _ := (scene{change: change}).play(t, "B01"); o.Evidence != want {
			t.Errorf("evidence %s, want %s", o.Evidence, want)
		}
	}
}
