package cases_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

// playWith plays a case with a recipe that differs from the usual one.
func playWith(t *testing.T, id string, change func(*probe.Recipe), faults ...target.Fault) (probe.Outcome,
	probe.Observed,
) {
	t.Helper()
	api, server := target.Start(t, faults...)
	recipe := recipeFor(t, server.URL, api)
	change(&recipe)
	return only(t, id, recipe)
}

// wantAs plays a case with another recipe and compares the verdict.
func wantAs(t *testing.T, id string, want probe.Verdict, change func(*probe.Recipe),
	faults ...target.Fault,
) probe.Observed {
	t.Helper()
	o, observed := playWith(t, id, change, faults...)
	if o.Verdict != want {
		t.Errorf("%s, %v: %s, want %s: %v", id, faults, o.Verdict, want, o.Findings)
	}
	return observed
}

// as declares a profile whose header is the usual one.
func as(profile string) func(*probe.Recipe) {
	return func(r *probe.Recipe) { r.Profile, r.KeyHeader = profile, "Idempotency-Key" }
}

func requiresKeys(r *probe.Recipe) { r.KeyRequired = true }

func TestRetriesGetTheFirstAnswer(t *testing.T) {
	t.Parallel()
	expect(t, "B02", probe.Pass, wrongs{
		target.ReplayedAs200: probe.Fail, target.Reformatted: probe.Fail, target.LargeRunsAgain: probe.Pass,
		target.TwoFramings: probe.Pass,
	})
	wantAs(t, "B02", probe.Pass, as("paypal"), target.ReplayedAs200)
}

// A server in front of the API may date each answer. Seen to fail with Expires compared.
func TestAnExpiresOfEachAnswer(t *testing.T) {
	t.Parallel()
	api, server := target.Start(t)
	behind, answers := server.Config.Handler, time.Duration(0)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers++ // the probe makes one request at a time
		w.Header().Set("Expires", time.Now().Add(time.Hour+answers*time.Second).UTC().Format(http.TimeFormat))
		behind.ServeHTTP(w, r)
	})
	if o, _ := only(t, "B11", recipeFor(t, server.URL, api)); o.Verdict != probe.Pass {
		t.Errorf("%s: %v", o.Verdict, o.Findings)
	}
}

func TestRequestsWithoutKeys(t *testing.T) {
	t.Parallel()
	expect(t, "B05", probe.Pass, wrongs{
		target.PayloadKeys: probe.Warn, target.KeysRequired: probe.Info, target.RefusesLate: probe.Fail,
	})
	wantAs(t, "B05", probe.Pass, requiresKeys, target.KeysRequired)
	wantAs(t, "B05", probe.Fail, requiresKeys, target.RefusesLate)
}

func TestSpellingsOfThePath(t *testing.T) {
	t.Parallel()
	expect(t, "B13", probe.Pass, wrongs{target.ExactPaths: probe.Fail, target.NoKeys: probe.Fail})
	wantAs(t, "B13", probe.Pass, requiresKeys, target.KeysRequired)
	wantAs(t, "B13", probe.Fail, requiresKeys, target.KeysRequired, target.ExactPaths)
	wantAs(t, "B13", probe.NA, func(r *probe.Recipe) { r.Request.Path = "/things?of={{uuid}}" })
}

func TestRequiredKeys(t *testing.T) {
	t.Parallel()
	expect(t, "B06", probe.NA, nil)
	observed := wantAs(t, "B06", probe.Pass, requiresKeys, target.KeysRequired)
	if observed.Missing != 400 {
		t.Errorf("observed %d without a key, want 400", observed.Missing)
	}
	wantAs(t, "B06", probe.Fail, requiresKeys)
	wantAs(t, "B06", probe.Fail, requiresKeys, target.RefusesLate)
	wantAs(t, "B06", probe.Warn, requiresKeys, target.RefusesBare)
}

func TestOneHeaderOfTwo(t *testing.T) {
	t.Parallel()
	for fault, want := range map[target.Fault]probe.Verdict{
		"": probe.Pass, target.OneHeader: probe.Fail,
		target.PlainRefusals: probe.Fail,
	} {
		if o, _ := playRepeatable(t, "B06", fault); o.Verdict != want {
			t.Errorf("B06, repeatability, %s: %s, want %s: %v", fault, o.Verdict, want, o.Findings)
		}
	}
}

func TestNameOfTheHeader(t *testing.T) {
	t.Parallel()
	expect(t, "B07", probe.Pass, nil)
	api, address := target.StartExact(t, "Idempotency-Key")
	if o, _ := only(t, "B07", recipeFor(t, address, api)); o.Verdict != probe.Fail {
		t.Errorf("B07, one spelling only: %s, want FAIL: %v", o.Verdict, o.Findings)
	}
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	expect(t, "B08", probe.Pass, wrongs{target.NoMarker: probe.Warn})
	wantAs(t, "B08", probe.Pass, as("stripe"))
	wantAs(t, "B08", probe.Fail, as("stripe"), target.NoMarker)
	wantAs(t, "B08", probe.Info, as("paypal"))
	wantAs(t, "B08", probe.Pass, as("paypal"), target.NoMarker)
	if got := wantAs(t, "B08", probe.Pass, as("ietf")).Marker; got != "Idempotent-Replayed" {
		t.Errorf("observed marker %q", got)
	}
	if got := wantAs(t, "B08", probe.Pass, as("ietf"), target.NoMarker, target.SaysUntil).
		Marker; got != "Idempotency-Expires" {
		t.Errorf("observed marker %q", got)
	}
	if o, seen := playWith(t, "B08", as("ietf"), target.NoMarker, target.SaysAlways); o.Verdict != probe.Warn ||
		seen.Marker != "" ||
		!strings.Contains(o.Findings[0].Text, "the first answer has that header too") {
		t.Errorf("a marker of all answers: %s, marker %q: %v", o.Verdict, seen.Marker, o.Findings)
	}
	expect(t, "B09", probe.Pass, wrongs{target.MarkerAlways: probe.Fail})
}

func TestEcho(t *testing.T) {
	t.Parallel()
	for fault, want := range map[target.Fault]bool{"": false, target.KeysEchoed: true} {
		if got := wantAs(t, "B10", probe.Info, as("ietf"), fault).Echo; got == nil || *got != want {
			t.Errorf("%s: observed echo %v, want %v", fault, got, want)
		}
	}
}

func TestExactBytes(t *testing.T) {
	t.Parallel()
	expect(t, "B11", probe.Pass, wrongs{
		target.Reformatted: probe.Fail, target.HeadersSplit: probe.Fail, target.TypeLost: probe.Fail,
		target.LocationLost:  probe.Fail,
		target.ReplayedAs200: probe.Fail,
	})
	expect(t, "B12", probe.Pass, wrongs{target.LocationLost: probe.Fail, target.NoKeys: probe.Fail})
	wantAs(t, "B12", probe.Fail, as("paypal"), target.LocationLost)
}
