package cases_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

// place is an API, the server that it is behind, and the recipe for it.
type place struct {
	api    *target.API
	server *httptest.Server
	recipe *probe.Recipe
}

// scene is how a case is to end.
type scene struct {
	name   string
	want   probe.Verdict
	says   string        // in a finding; "": nothing is looked for
	change func(p place) // may be nil
	faults []target.Fault
}

// expectScenes plays a case in all scenes at the same time: most of it is waiting.
func expectScenes(t *testing.T, id string, scenes ...scene) {
	t.Helper()
	var all sync.WaitGroup
	defer all.Wait()
	for _, s := range scenes {
		all.Go(func() { t.Run(id+" "+s.name, func(t *testing.T) { s.expect(t, id) }) })
	}
}

func (s scene) expect(t *testing.T, id string) {
	t.Helper()
	sees(t, s.faults, s.want, func() string {
		o, _ := s.play(t, id)
		said := slices.ContainsFunc(o.Findings, func(f probe.Finding) bool { return strings.Contains(f.Text, s.says) })
		if o.Verdict == s.want && (s.says == "" || said) {
			return ""
		}
		return fmt.Sprintf("%s, want %s %q: %v", o.Verdict, s.want, s.says, o.Findings)
	})
}

func (s scene) play(t *testing.T, id string) (probe.Outcome, probe.Observed) {
	t.Helper()
	api, server := target.Start(t, s.faults...)
	recipe := recipeFor(t, server.URL, api)
	if s.change != nil {
		s.change(place{api, server, &recipe})
	}
	return only(t, id, recipe)
}

// right is the scene without a fault.
func right(want probe.Verdict, changes ...func(p place)) scene {
	return scene{name: "is right", want: want, change: allOf(changes)}
}

// wrong is the scene with one fault.
func wrong(fault target.Fault, want probe.Verdict, says string, changes ...func(p place)) scene {
	return scene{name: string(fault), want: want, says: says, faults: []target.Fault{fault}, change: allOf(changes)}
}

func allOf(changes []func(p place)) func(p place) {
	return func(p place) {
		for _, change := range changes {
			change(p)
		}
	}
}

// hasty makes a run give up soon on what does not end.
func hasty(p place) { p.recipe.Limits.Wait = 1500 * time.Millisecond }

// patient makes a run wait for what comes, but not always in time on a busy machine.
func patient(p place) { p.recipe.Limits.Wait = time.Minute }

// quick takes the slow variant away.
func quick(p place) { p.recipe.Variants.Slow = nil }

// blind takes the count away: what is left is what answers show.
func blind(p place) { p.recipe.Count = nil }

// declares sets the profile.
func declares(profile string) func(p place) {
	return func(p place) { p.recipe.Profile = profile }
}

// hooked lets the probe restart the API and stop its store.
func hooked(p place) {
	p.recipe.Hooks = probe.Hooks{
		Restart:    func(context.Context) error { p.api.Restart(p.server); return nil },
		StopStore:  func(context.Context) error { p.api.StopStore(); return nil },
		StartStore: func(context.Context) error { p.api.StartStore(); return nil },
		Revoke:     func(context.Context) error { p.api.Revoke("Bearer a"); return nil },
		Restore:    func(context.Context) error { p.api.Restore("Bearer a"); return nil },
	}
}
