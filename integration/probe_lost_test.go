package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
)

// Whatever the profile says of server errors: if the upstream's answer is lost, the work is done once, unless the
// route says that it may be done again. Each cell is a proxy in front of an upstream that counts; F13 closes the
// connection before the answer, F14 in the middle of its body, F15 answers too late. Seen to fail for paypal, aws,
// checkout, gocardless and stripe-v2 while the profile's class decided.
func TestProbeLosesAnswersBehindTheProxy(t *testing.T) {
	t.Parallel()
	policies := map[string]retrysafe.AmbiguousPolicy{
		"store": retrysafe.AmbiguousStore, "release": retrysafe.AmbiguousRelease, "unknown": retrysafe.AmbiguousUnknown,
	}
	for _, profile := range httpsafe.Profiles() {
		for name, policy := range policies {
			t.Run(fmt.Sprintf("%s/%s", profile.Name, name), func(t *testing.T) {
				t.Parallel()
				want := probe.Pass
				if policy == retrysafe.AmbiguousRelease {
					want = probe.Fail // the user's word that the work may run again
				}
				options := httpsafe.Options{Profile: profile, Ambiguous: policy}
				report := playLost(t, profile, options, lateAfter)
				// A busy machine may bring neither the request to the upstream in that time, nor its retries.
				tooBusy := func() bool {
					return report.Count(probe.NA) > 0 || want == probe.Fail && report.Count(probe.Pass) > 0
				}
				for late := 4 * lateAfter; tooBusy() && late < time.Minute; late *= 4 {
					report = playLost(t, profile, options, late)
				}
				for _, o := range report.Outcomes {
					if o.Verdict != want {
						t.Errorf("%s %s: %s, want %s: %v\n%s", o.ID, o.Name, o.Verdict, want, o.Findings, timeline(o))
					}
				}
			})
		}
	}
}

// playLost loses answers of a new upstream behind a new proxy.
func playLost(t *testing.T, profile httpsafe.Profile, options httpsafe.Options, late time.Duration) *probe.Report {
	t.Helper()
	api := new(orders)
	address := behindProxyWith(t, api, options, late)
	report, err := cases.Run(t.Context(), api.recipe(t, address, profile),
		probe.Options{Only: []string{"F13", "F14", "F15"}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
