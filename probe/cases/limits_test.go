package cases_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

// A right API with a rate limit is not told that it is wrong. Seen to fail with the waiting in Send taken out.
func TestARateLimitIsNoFault(t *testing.T) {
	t.Parallel()
	for _, fault := range []target.Fault{target.Limits, target.LimitsMutely} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			plays, judged, waited := 0, 0, 0
			// a machine that is slow for a while does not reach the limit
			for ; plays < 3 && (judged < 12 || waited == 0); plays++ {
				report := playIn(t, "ietf", []string{
					"B01", "B02", "B03", "B04", "K04", "M01", "M02", "C01", "C02",
					"C03", "C07", "C08", "F04", "F07", "F08", "H02", "X01",
				}, fault)
				judged, waited = report.Count(probe.Pass)+report.Count(probe.Info), 0
				for _, o := range report.Outcomes {
					if o.Verdict == probe.Fail {
						t.Errorf("%s: %v", o.ID, o.Findings)
					}
					if slices.ContainsFunc(o.Timeline,
						func(e probe.Exchange) bool { return strings.Contains(e.Label, "after a 429") }) {
						waited++
					}
				}
			}
			if judged < 12 || waited == 0 {
				t.Errorf("only %d cases could be judged, %d of them by waiting, in the last of %d plays", judged, waited, plays)
			}
		})
	}
}

// What is wrong is found behind a rate limit too.
func TestFaultsBehindARateLimit(t *testing.T) {
	t.Parallel()
	for id, fault := range map[string]target.Fault{
		"B02": target.NoKeys, "M01": target.NoComparison,
		"C02": target.LookThenRun, "X01": target.NoScope,
	} {
		expectScenes(t, id, scene{name: string(fault), want: probe.Fail, faults: with(fault, target.LimitsMutely)})
	}
}

// A rate limit that does not end is said to be in the way, and does not make cases fail.
func TestARateLimitThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	usedUp := func(p place) {
		for range 10 {
			p.api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/effects", nil))
		}
	}
	expectScenes(t, "B03",
		scene{
			name: "in its midst", want: probe.Broken, says: "a rate limit (429) got in the way",
			faults: with(target.LimitsAlways), change: hasty,
		},
		scene{
			name: "from the beginning", want: probe.Broken, says: "429", faults: with(target.LimitsAlways),
			change: allOf([]func(place){hasty, usedUp}),
		},
	)
}

// A run that has spent its requests says so; what it could not see is not the API's fault.
// Seen to fail with the look at the meter taken out: the tenth retry got no answer.
func TestARunThatHasSpentItsRequests(t *testing.T) {
	t.Parallel()
	api, server := target.Start(t)
	recipe := recipeFor(t, server.URL, api)
	recipe.Limits.Requests = 5
	report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{"B03", "B04"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range report.Outcomes {
		if o.Verdict != probe.Broken || !strings.Contains(o.Findings[0].Text, "limits.requests") {
			t.Errorf("%s: %s %v", o.ID, o.Verdict, o.Findings)
		}
	}
}

// broken counts nothing after its first time.
type brokenCount struct{ asked int }

func (c *brokenCount) Count(context.Context) (int64, error) {
	if c.asked++; c.asked > 1 {
		return 0, errors.New("the database is gone")
	}
	return 0, nil
}

// What a target, or a recipe, does not let a case do is said as what it is.
func TestBroken(t *testing.T) {
	t.Parallel()
	gone := func(p place) { p.server.Close() }
	fails := func(context.Context) error { return errors.New("exit status 1") }
	for _, c := range []struct {
		id, says string
		change   func(p place)
	}{
		{"B01", "refused the first request with 404", func(p place) { p.recipe.Request.Path = "/nowhere" }},
		{"B01", "identity finds nothing", func(p place) { p.recipe.Identity.Pointer = "/other" }},
		{"B01", "did not answer", gone},
		{"B02", "refused the first request with 404", func(p place) { p.recipe.Request.Path = "/nowhere" }},
		{"B02", "could not be counted: the database is gone", func(p place) { p.recipe.Count = &brokenCount{} }},
		{"M01", "did not answer", gone},
		{"C03", "answered the slow request", func(p place) { p.recipe.Variants.Slow.Path = "/nowhere" }},
		{"C07", "no HTTP/2 connection", gone},
		{"F05", "variants.rate_limit", func(p place) { p.recipe.Variants.RateLimit.Path = "/things/broken" }},
		{"F10", "hooks.restart: exit status 1", func(p place) { hooked(p); p.recipe.Hooks.Restart = fails }},
		{"F12", "hooks.stop_store: exit status 1", func(p place) { hooked(p); p.recipe.Hooks.StopStore = fails }},
		{"F12", "hooks.start_store: exit status 1", func(p place) { hooked(p); p.recipe.Hooks.StartStore = fails }},
		{"X01", "cannot make the request with any key", func(p place) { p.recipe.B = p.recipe.Revoked }},
	} {
		expectScenes(t, c.id, scene{name: c.says, want: probe.Broken, says: c.says, change: c.change})
	}
}

// A count that never works ends the run before anything is sent.
func TestACountThatNeverWorks(t *testing.T) {
	t.Parallel()
	api, server := target.Start(t)
	recipe := recipeFor(t, server.URL, api)
	recipe.Count = &brokenCount{asked: 1}
	if _, err := cases.Run(t.Context(), recipe, probe.Options{}); err == nil ||
		!strings.Contains(err.Error(), "the database is gone") {
		t.Errorf("got %v", err)
	}
}
