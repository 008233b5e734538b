package cases_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/internal/target"
	"github.com/retrysafe/retrysafe/probe/wire"
)

type counted struct{ api *target.API }

func (c counted) Count(context.Context) (int64, error) { return c.api.Effects(), nil }

// recipeFor is a whole recipe for the API of package target.
func recipeFor(t *testing.T, address string, api *target.API) probe.Recipe {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	header := []wire.HeaderLine{{Name: "Content-Type", Value: "application/json"}}
	at := func(path string) *probe.Template {
		return &probe.Template{Path: path, Header: header, Body: `{"amount": {{amount}}, "note": "{{uuid}}"}`}
	}
	return probe.Recipe{
		Target: u, Request: *at("/things"), Identity: probe.Identity{Pointer: "/id"}, Count: counted{api},
		A:       []wire.HeaderLine{{Name: "Authorization", Value: "Bearer a"}},
		B:       []wire.HeaderLine{{Name: "Authorization", Value: "Bearer b"}},
		Revoked: []wire.HeaderLine{{Name: "Authorization", Value: "Bearer revoked"}},
		Variants: probe.Variants{
			Slow: at("/things/slow"), Failing: at("/things/failing"), Broken: at("/things/broken"),
			Other: at("/others"), Cookie: at("/things/cookie"),
			Invalid: &probe.Template{Path: "/things", Header: header, Body: `{"amount": `},
			Read:    &probe.Template{Method: "GET", Path: "/effects"},
			Put:     &probe.Template{Method: "PUT", Path: "/docs/{{uuid}}", Header: header, Body: `{"amount": {{amount}}}`},
			Patch:   &probe.Template{Method: "PATCH", Path: "/docs/{{uuid}}", Header: header, Body: `{"amount": {{amount}}}`},
			Delete:  &probe.Template{Method: "DELETE", Path: "/docs/{{uuid}}"},
			Large:   at("/large"), Async: at("/jobs"), Redirect: at("/moved"), Informed: at("/informed"),
			RateLimit:  at("/things/limited"),
			Unanswered: at("/things/unanswered"), CutOff: at("/things/cut-off"), Late: at("/things/late"),
			Unavailable: at("/things/unavailable"),
			Unreached:   at("/things/unreached"), Busy: at("/things/busy"), SeeOther: at("/things/see-other"),
		},
		AAgain: []wire.HeaderLine{{Name: "Authorization", Value: "Bearer a.2"}}, OtherHost: "other.example",
		PolicyURL: u.String() + "/policy",
	}
}

// play plays one case against an API with faults.
func play(t *testing.T, id string, faults ...target.Fault) probe.Outcome {
	t.Helper()
	api, server := target.Start(t, faults...)
	report, err := cases.Run(t.Context(), recipeFor(t, server.URL, api), probe.Options{Only: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	o, _ := report.Find(id)
	for _, e := range o.Timeline {
		if e.SentAt.Before(report.BeganAt) || e.EndedAt.Before(e.SentAt) {
			t.Errorf("%s, exchange %d (%s): from %v to %v", id, e.No, e.Label, e.SentAt, e.EndedAt)
		}
	}
	return o
}

// sees wants play to find nothing to object to. A fault that takes the right moment may get past a case once; a case
// that it gets past three times does not see it. Where there is no fault and want is Pass, a false alarm is one too
// many. A play during which this process was kept from running does not count: what a case sees then is the machine's
// doing.
func sees(t *testing.T, faults []target.Fault, want probe.Verdict, play func() (objection string)) {
	t.Helper()
	plays := 3
	if len(faults) == 0 && want == probe.Pass {
		plays = 1
	}
	for spare := stalledPlays; ; {
		switch objection, stalled := stalled(t, play); {
		case objection == "":
			return
		case stalled && spare > 0:
			spare--
		case plays == 1:
			t.Error(objection)
			return
		default:
			plays--
		}
	}
}

// expect plays a case against a right API and against wrong ones.
func expect(t *testing.T, id string, right probe.Verdict, wrong map[target.Fault]probe.Verdict) {
	t.Helper()
	verdict := func(want probe.Verdict, faults ...target.Fault) {
		sees(t, faults, want, func() string {
			if o := play(t, id, faults...); o.Verdict != want {
				return fmt.Sprintf("%s, %v: %s, want %s: %v", id, faults, o.Verdict, want, o.Findings)
			}
			return ""
		})
	}
	verdict(right)
	for fault, want := range wrong {
		verdict(want, fault)
	}
}
