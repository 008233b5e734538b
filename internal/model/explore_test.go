package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// smallScopes take a few seconds with the race detector.
var smallScopes = []Scope{
	{Owners: 2, Leases: 2, Steps: 1, Results: 1},
	{Owners: 2, Leases: 1, Steps: 1, Results: 1, Short: true, Transactions: true},
}

// scopes are those that violate an invariant where the model does without a rule, whichever it is.
var scopes = []Scope{
	{Owners: 2, Leases: 2, Steps: 1, Results: 2, Short: true},
	{Owners: 2, Leases: 2, Steps: 1, Results: 1, Transactions: true},
	{Owners: 3, Leases: 3, Steps: 1, Results: 1},
}

// largeScopes take minutes.
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

// Every state of these scopes satisfies the invariants. What each invariant is good for: TestSoakEachRuleIsNeeded.
func TestSoakInvariants(t *testing.T) {
	all := smallScopes
	if soak.Times(t, 1) > 1 {
		all = slices.Concat(scopes, largeScopes)
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

// Each rule of the model is needed by an invariant, and each invariant finds the lack of a rule. All of them take a minute
// with the race detector, so that make test looks at one.
func TestSoakEachRuleIsNeeded(t *testing.T) {
	rules, long := Rules[:1], soak.Times(t, 1) > 1
	if long {
		rules = Rules
	}
	finds := map[invariant]bool{}
	for _, without := range rules {
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
		if long && !finds[i] {
			t.Errorf("no rule is needed by %q", i)
		}
	}
}
