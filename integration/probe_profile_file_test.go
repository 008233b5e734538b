package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/recipe"
)

// A profile of an API's own is one file for the server and for the probe: the server does what the file says, and the
// probe sees that, and what a server does otherwise.
//
// Seen to fail with statusRules, keyRules and replayRules taken out of rulesOf.
func TestProbeOfAProfileFile(t *testing.T) {
	const path = "testdata/acme.yaml"
	profile, err := profiles.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := recipe.LoadRules(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("right", func(t *testing.T) {
		t.Parallel()
		api := new(orders)
		r := api.recipe(t, behindProxy(t, api, profile.Profile), profile.Profile)
		r.Variants.Large.Path = "/orders/huge"
		r.Rules = &rules
		playAll(t, "proxy", r, probe.Options{})
	})
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for id, change := range map[string][2]string{
		"B06": {"key-missing: 428", "key-missing: 422"},
		"M01": {"key-reused: 409", "key-reused: 400"},
		"C01": {"request-in-flight: 503", "request-in-flight: 409"},
		"B08": {"marker: Acme-Replayed", "marker: Other-Replayed"},
	} {
		t.Run("wrong/"+id, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(string(source), change[0], change[1], 1)
			other := filepath.Join(t.TempDir(), "other.yaml")
			if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			served, err := profiles.Load(other)
			if err != nil {
				t.Fatal(err)
			}
			api := new(orders)
			r := api.recipe(t, behindProxy(t, api, served.Profile), served.Profile)
			r.Rules = &rules
			report, err := cases.Run(t.Context(), r, probe.Options{Only: []string{id}})
			if err != nil {
				t.Fatal(err)
			}
			if o := report.Outcomes[0]; o.Verdict != probe.Fail && o.Verdict != probe.Warn {
				t.Errorf("with %q in place of %q: %s %v\n%s", change[1], change[0], o.Verdict, o.Findings, timeline(o))
			}
		})
	}
}
