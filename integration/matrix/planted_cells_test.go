//go:build linux

package matrix

import (
	"slices"
	"strings"
	"testing"
)

// The judge sees what it is made for: in each of these cells a store is broken on purpose, and the same cell with the
// sound store is green. Seen to fail with beside looking at no run.
func TestTheJudgeSees(t *testing.T) {
	const zombie = "throttle:beat*99; lapse; retry; settle; go"
	for _, c := range []struct{ planted, policy, script, sees string }{
		{forgetsFences, rerun, "lead complete:before " + zombie, "complete under a lost lease was acknowledged"},
		{freesAbandoned, refuse, "lead effect " + zombie, "2 effects instead of one"},
		{runsBeside, rerun, "lead work throttle:beat*99; retry; settle; go", "an attempt began beside one whose lease ran"},
		{answersAnother, refuse, "lead -; retry", "2 different answers"},
		{forgetsSteps, steps, "lead saved " + zombie, "an attempt that began later has repeated step one, which was saved"},
		{forgetsComplete, rerun, "lead complete:after; go; wait; retry", "the work ran after an answer was given"},
		{
			forgetsComplete, refuse, "lead complete:after; go; wait; retry",
			"an answer was given, and after all faults there is none",
		},
	} {
		t.Run(c.planted+"/"+c.policy, func(t *testing.T) {
			t.Parallel()
			run := func(planted string) (problems []string, seen bool, history string) {
				at := &cell{
					stand: newStand(t, memory, plain, planted), fault: fault{ID: "planted", Script: c.script},
					policy: c.policy, seed: 1,
				}
				problems, _ = at.run()
				seen = slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, c.sees) })
				return problems, seen, at.history()
			}
			problems, seen, history := run(c.planted)
			for tries := 1; !seen && tries < 10; tries++ { // a machine that stands still ends the leases, and hides the fault
				problems, seen, history = run(c.planted)
			}
			if !seen {
				t.Errorf("with a store that %q: %q\n%s", c.planted, problems, history)
			}
			if problems, _, history := run(""); len(problems) > 0 {
				t.Errorf("with a sound store: %q\n%s", problems, history)
			}
		})
	}
}
