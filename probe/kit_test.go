package probe_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/internal/target"
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
	header := []probe.HeaderLine{{Name: "Content-Type", Value: "application/json"}}
	at := func(path string) *probe.Template {
		return &probe.Template{Path: path, Header: header, Body: `{"amount": {{amount}}, "note": "{{uuid}}"}`}
	}
	return probe.Recipe{
		Target: u, Request: *at("/things"), Identity: probe.Identity{Pointer: "/id"}, Count: counted{api},
		A: []probe.HeaderLine{{Name: "Authorization", Value: "Bearer a"}}, B: []probe.HeaderLine{{Name: "Authorization", Value: "Bearer b"}},
		Revoked: []probe.HeaderLine{{Name: "Authorization", Value: "Bearer revoked"}},
		Variants: probe.Variants{
			Slow: at("/things/slow"), Failing: at("/things/failing"), Broken: at("/things/broken"), Other: at("/others"), Cookie: at("/things/cookie"),
			Invalid: &probe.Template{Path: "/things", Header: header, Body: `{"amount": `},
			Read:    &probe.Template{Method: "GET", Path: "/effects"},
			Put:     &probe.Template{Method: "PUT", Path: "/docs/{{uuid}}", Header: header, Body: `{"amount": {{amount}}}`},
			Patch:   &probe.Template{Method: "PATCH", Path: "/docs/{{uuid}}", Header: header, Body: `{"amount": {{amount}}}`},
			Delete:  &probe.Template{Method: "DELETE", Path: "/docs/{{uuid}}"},
			Large:   at("/large"), Async: at("/jobs"), Redirect: at("/moved"), Informed: at("/informed"), RateLimit: at("/things/limited"),
		},
		PolicyURL: u.String() + "/policy",
	}
}

// play plays one case against an API with faults.
func play(t *testing.T, id string, faults ...target.Fault) probe.Outcome {
	t.Helper()
	api, server := target.Start(t, faults...)
	report, err := probe.Run(t.Context(), recipeFor(t, server.URL, api), probe.Options{Only: []string{id}})
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

// expect plays a case against a right API and against wrong ones.
func expect(t *testing.T, id string, right probe.Verdict, wrong map[target.Fault]probe.Verdict) {
	t.Helper()
	if o := play(t, id); o.Verdict != right {
		t.Errorf("%s, no fault: %s, want %s: %v", id, o.Verdict, right, o.Findings)
	}
	for fault, want := range wrong {
		if o := play(t, id, fault); o.Verdict != want {
			t.Errorf("%s, %s: %s, want %s: %v", id, fault, o.Verdict, want, o.Findings)
		}
	}
}
