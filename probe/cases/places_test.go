package cases_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/internal/target"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// keysIn are the places that keys can be in besides a header.
func keysIn() map[string]func(p place) {
	return map[string]func(p place){
		"a member":      inMember("/idempotency_key"),
		"a deep member": inMember("/meta/the key"),
		"the query": func(p place) {
			p.recipe.KeyQuery = "idempotency_key"
			p.api.KeysAt("", "idempotency_key")
		},
		"a form": func(p place) {
			inMember("/idempotency_key")(p)
			p.recipe.Request.Header = []wire.HeaderLine{{Name: "Content-Type", Value: "application/x-www-form-urlencoded"}}
			p.recipe.Request.Body = "amount={{amount}}&note={{uuid}}"
			p.recipe.Variants = probe.Variants{}
		},
	}
}

func inMember(pointer string) func(p place) {
	return func(p place) {
		p.recipe.KeyBody = pointer
		p.api.KeysAt(pointer, "")
	}
}

// playWhole plays the whole suite against an API, and wants no FAIL and nothing BROKEN.
func playWhole(t *testing.T, change func(p place)) *probe.Report {
	t.Helper()
	api, server := target.Start(t)
	recipe := recipeFor(t, server.URL, api)
	change(place{api, server, &recipe})
	report, err := cases.Run(t.Context(), recipe, probe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range report.Outcomes {
		if o.Verdict == probe.Fail || o.Verdict == probe.Broken {
			t.Errorf("%s %s: %s %v", o.ID, o.Name, o.Verdict, o.Findings)
		}
	}
	return report
}

// A right API has no FAIL wherever its keys are, and the cases about header lines say why they are N/A. Seen to fail
// with withoutHeaderCases taken out (K01 and others), with WithParameter taken out of Keyed (B02 and others), and with
// the key added to the request before WithPath in otherSpellings (B13).
func TestKeysInOtherPlaces(t *testing.T) {
	t.Parallel()
	for name, change := range keysIn() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := playWhole(t, change)
			for _, id := range []string{"B07", "B10", "K01", "K02", "K03", "K04", "K05", "K12", "K13", "K15", "H07", "H15"} {
				o, _ := report.Find(id)
				if o.Verdict != probe.NA || !o.NotInProfile || !strings.Contains(o.Findings[0].Text, "this API has keys") {
					t.Errorf("%s: %s %v", id, o.Verdict, o.Findings)
				}
			}
			if n := report.Count(probe.Pass); n < 35 {
				t.Errorf("only %d cases passed", n)
			}
		})
	}
}

// Seen to fail with keyPointer returning nothing: the API then gets no key.
func TestFaultsOfKeysInOtherPlaces(t *testing.T) {
	t.Parallel()
	for name, change := range keysIn() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for id, fault := range map[string]target.Fault{
				"B02": target.NoKeys, "C01": target.LookThenRun, "M01": target.NoComparison, "X01": target.NoScope,
				"K06": target.EmptyIsNone, "K09": target.CutKeys, "K14": target.FoldsCase, "K16": target.UUIDsRefused,
				"K11": target.DecodesPercent,
			} {
				expectScenes(t, id, wrong(fault, probe.Fail, "", change))
			}
			if name == "the query" {
				expectScenes(t, "H17", wrong(target.QueryLost, probe.Fail, "2 effects", change))
			}
			required := func(p place) { p.recipe.KeyRequired = true }
			expectScenes(t, "B06", right(probe.Fail, change, required),
				wrong(target.KeysRequired, probe.Pass, "", change, required))
		})
	}
}

func TestRecipesWithTwoPlacesOfKeys(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(r *probe.Recipe){
		"one place only":     func(r *probe.Recipe) { r.KeyBody, r.KeyQuery = "/key", "key" },
		"keep one of":        func(r *probe.Recipe) { r.KeyHeader, r.KeyQuery = "Key", "key" },
		"not a JSON pointer": func(r *probe.Recipe) { r.KeyBody = "key" },
	} {
		api, server := target.Start(t)
		recipe := recipeFor(t, server.URL, api)
		change(&recipe)
		if _, err := cases.Run(t.Context(), recipe, probe.Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
