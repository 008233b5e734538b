package model

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// scopes are explored as a whole.
var scopes = []Scope{
	{Owners: 2, Leases: 2, Steps: 1, Results: 2, Short: true},
	{Owners: 2, Leases: 2, Steps: 1, Results: 1, Transactions: true},
	{Owners: 3, Leases: 3, Steps: 1, Results: 1},
}

// largeScopes take minutes: they are for make soak.
var largeScopes = []Scope{
	{Owners: 2, Leases: 2, Steps: 2, Results: 2, Short: true},
	{Owners: 3, Leases: 3, Steps: 1, Results: 1, Short: true, Transactions: true},
	{Owners: 3, Leases: 4, Steps: 1, Results: 1},
}

// explore visits every state of a scope, and checks every step.
func (s Scope) explore(without Rule) (Exploration, []Action, error) {
	start := seen{World: World{State: State{Without: without}}}
	return Explore(start, seen.key, func(w seen) []Action { return s.Actions(w.World) },
		func(w seen, a Action) (seen, error) {
			to, err := w.do(a)
			if len(to.Leases) > s.Leases {
				return w, err // the step is checked, and leads out of the scope
			}
			return to, err
		})
}

func written(trace []Action) string {
	var b strings.Builder
	for i, a := range trace {
		fmt.Fprintf(&b, "%4d. %v\n", i+1, a)
	}
	return b.String()
}

// Every state of these scopes satisfies the invariants. What each invariant is good for: TestEachRuleIsNeeded.
func TestSoakInvariants(t *testing.T) {
	all := scopes
	if soak.Times(t, 1) > 1 {
		all = append(all, largeScopes...)
	}
	for _, s := range all {
		start := time.Now()
		e, trace, err := s.explore("")
		if err != nil {
			t.Errorf("%+v: %v, after\n%s", s, err, written(trace))
		}
		t.Logf("%+v: %d states, %d transitions, depth %d, %.1f s", s, e.States, e.Transitions, e.Depth,
			time.Since(start).Seconds())
	}
}

// Each rule of the model is needed by an invariant, and each invariant finds the lack of a rule.
func TestEachRuleIsNeeded(t *testing.T) {
	finds := map[invariant]bool{}
	for _, without := range Rules {
		found := false
		for _, s := range scopes {
			e, trace, err := s.explore(without)
			var v violated
			if !errors.As(err, &v) {
				continue
			}
			found = true
			finds[v.invariant] = true
			t.Logf("without %q: %q, in %d steps, after %d states", without, v.invariant, len(trace), e.States)
			break
		}
		if !found {
			t.Errorf("without %q: no invariant is violated", without)
		}
	}
	for _, i := range invariants {
		if !finds[i] {
			t.Errorf("no rule is needed by %q", i)
		}
	}
}
