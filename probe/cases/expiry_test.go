package cases_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

// playFor plays a case against an API that keeps keys for a time.
func playFor(t *testing.T, id string, retention time.Duration, faults ...target.Fault) (probe.Outcome, probe.Observed) {
	t.Helper()
	api := target.New(faults...)
	api.Keep(retention)
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	recipe := recipeFor(t, server.URL, api)
	recipe.Retention = retention
	return only(t, id, recipe)
}

// playRepeatable plays a case against an API with repeatable requests. Their dates have whole seconds, so a retention
// is longer than that. On a busy machine a request may be too old when it arrives, and then it is played with a longer
// one.
func playRepeatable(t *testing.T, id string, faults ...target.Fault) (o probe.Outcome, seen probe.Observed) {
	t.Helper()
	for _, retention := range []time.Duration{2 * time.Second, 6 * time.Second, 18 * time.Second} {
		if o, seen = playRepeatableFor(t, id, retention, faults...); o.Verdict != probe.NA && o.Verdict != probe.Broken {
			break
		}
	}
	return o, seen
}

func playRepeatableFor(t *testing.T, id string, retention time.Duration, faults ...target.Fault) (probe.Outcome,
	probe.Observed,
) {
	t.Helper()
	api := target.New(faults...)
	api.Keep(retention)
	recipe := recipeFor(t, target.StartRepeatable(t, api).URL, api)
	recipe.Profile, recipe.Retention = "repeatability", retention
	plain := recipe.Request
	plain.Path = "/plain"
	recipe.Variants.Unkeyed = &plain
	return only(t, id, recipe)
}

// only plays a case, up to three times if it finds the machine too busy for the retention.
func only(t *testing.T, id string, recipe probe.Recipe) (o probe.Outcome, seen probe.Observed) {
	t.Helper()
	for range 3 {
		report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{id}})
		if err != nil {
			t.Fatal(err)
		}
		o, _ = report.Find(id)
		seen = report.Observed
		if o.Verdict != probe.NA {
			break
		}
	}
	return o, seen
}

func TestRetention(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id    string
		want  probe.Verdict
		fault target.Fault
	}{
		{"T01", probe.Pass, ""},
		{"T01", probe.Fail, target.EndsEarly},
		{"T01", probe.Fail, target.NoKeys},
		{"T02", probe.Info, ""},
		{"T02", probe.Info, target.NeverForgets},
		{"T02", probe.Info, target.ExpiredIsSaid},
		{"T02", probe.Fail, target.ForgetsBadly},
		{"T02", probe.Fail, target.BreaksOnOld},
		{"T03", probe.Info, ""},
		{"T03", probe.Info, target.Slides},
		{"T03", probe.Info, target.NeverForgets},
	} {
		t.Run(c.id+" "+string(c.fault), func(t *testing.T) {
			t.Parallel()
			retention := 2 * time.Second
			o, _ := playFor(t, c.id, retention, c.fault)
			for ; o.Verdict == probe.NA && retention < time.Minute; o, _ = playFor(t, c.id, retention, c.fault) {
				retention *= 3 // a busy machine did not send the retry in time
			}
			if o.Verdict != c.want {
				t.Errorf("%s, want %s: %v", o.Verdict, c.want, o.Findings)
			}
		})
	}
}

func TestRetentionIsObserved(t *testing.T) {
	t.Parallel()
	if _, seen := playFor(t, "T01", 4*time.Second); seen.RetryWithin < 2*time.Second || seen.RetryWithin > 4*time.Second {
		t.Errorf("retry within %v, want nine tenths of 4 s, or somewhat less on a busy machine", seen.RetryWithin)
	}
	if _, seen := playFor(t, "T02", 500*time.Millisecond,
		target.ExpiredIsSaid); seen.Expired != http.StatusUnprocessableEntity {
		t.Errorf("expired keys: %d, want 422", seen.Expired)
	}
	for _, c := range []struct {
		fault target.Fault
		want  bool
	}{{"", false}, {target.Slides, true}} {
		sees(t, nil, probe.Pass, func() string {
			if _, seen := playFor(t, "T03", 2*time.Second, c.fault); seen.Sliding == nil || *seen.Sliding != c.want {
				return fmt.Sprintf("%q: sliding is not seen to be %v", c.fault, c.want)
			}
			return ""
		})
	}
	if _, seen := playFor(t, "T03", 500*time.Millisecond, target.NeverForgets); seen.Sliding != nil {
		t.Error("sliding was seen where no retention ends")
	}
}

func TestRetentionThatIsTooLongToWaitFor(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"T01", "T02", "T03"} {
		if o, _ := playFor(t, id, 24*time.Hour); o.Verdict != probe.NA {
			t.Errorf("%s: %s, want N/A: %v", id, o.Verdict, o.Findings)
		}
	}
}

func TestRepeatableRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id    string
		want  probe.Verdict
		fault target.Fault
	}{
		{"T01", probe.Pass, ""},
		{"T02", probe.Pass, ""},
		{"T02", probe.Fail, target.StaleDates},
		{"T02", probe.Fail, target.PlainRefusals},
		{"T02", probe.Warn, target.NeverForgets},
		{"T05", probe.Pass, ""},
		{"T05", probe.Fail, target.StaleDates},
		{"T05", probe.Fail, target.AnyDates},
		{"T05", probe.Fail, target.PlainRefusals},
		{"T05", probe.Warn, target.FutureDates},
		{"T06", probe.Pass, ""},
		{"T06", probe.Fail, target.OneHeader},
		{"T06", probe.Fail, target.LonelyDates},
		{"T06", probe.Fail, target.PlainRefusals},
		{"T07", probe.Pass, ""},
		{"T07", probe.Fail, target.IgnoredHeaders},
		{"T07", probe.Fail, target.PlainRefusals},
	} {
		t.Run(c.id+" "+string(c.fault), func(t *testing.T) {
			t.Parallel()
			if o, _ := playRepeatable(t, c.id, c.fault); o.Verdict != c.want {
				t.Errorf("%s, want %s: %v", o.Verdict, c.want, o.Findings)
			}
		})
	}
}

func TestRepeatableRequestsAreForTheirProfile(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"T05", "T06", "T07"} {
		if o := play(t, id); o.Verdict != probe.NA || !o.NotInProfile {
			t.Errorf("%s: %s, want N/A for profile ietf: %v", id, o.Verdict, o.Findings)
		}
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	expect(t, "T04", probe.Pass, wrongs{target.NoPolicy: probe.Warn, target.PolicySilent: probe.Warn})
}

func TestPolicyElsewhere(t *testing.T) {
	t.Parallel()
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the credential went to another host")
		}
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusMovedPermanently)
			return
		}
		_, _ = w.Write([]byte("Keys expire."))
	}))
	t.Cleanup(moved.Close)
	for _, c := range []struct {
		url  string
		want probe.Verdict
	}{
		{moved.URL + "/old", probe.Pass},
		{"", probe.Warn},
		{"ftp://example.test/policy", probe.Warn},
		{"/relative", probe.Warn},
	} {
		api, server := target.Start(t)
		recipe := recipeFor(t, server.URL, api)
		recipe.PolicyURL = c.url
		if o, _ := only(t, "T04", recipe); o.Verdict != c.want {
			t.Errorf("%q: %s, want %s: %v", c.url, o.Verdict, c.want, o.Findings)
		}
	}
}
