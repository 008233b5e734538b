package probe_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
)

// spoken is a protocol of two cases that goes over no wire.
func spoken(exchange func(probe.Request) probe.Answer) probe.Protocol {
	return probe.Protocol{
		Rules:    probe.Rules{Name: "spoken", Header: "key"},
		Request:  func(r probe.Request) string { return r.Path + " " + r.Get("authorization") },
		Answer:   func(a probe.Answer) string { return a.Code },
		Exchange: func(_ context.Context, r probe.Request) probe.Answer { return exchange(r) },
		Cases: []probe.Case{
			probe.Case{ID: "P01", Why: "why", Fix: "fix"}.Played(func(t *probe.Trial) {
				if a := t.Send("only", t.Keyed(t.Fresh(), t.NewKey())); !a.OK() {
					t.Failf("got %s", a.Code)
				}
			}),
			probe.Case{ID: "P02", Needs: []probe.Need{probe.NewNeed("more", func(*probe.Recipe) bool { return false })}}.Played(func(t *probe.Trial) {
				t.Failf("it was played")
			}),
		},
	}
}

func spokenRecipe() probe.Recipe {
	return probe.Recipe{
		Target: &url.URL{Scheme: "spoken", Host: "here:1"}, Request: probe.Template{Path: "make"}, Identity: probe.Identity{Pointer: "/id"},
		A: []probe.HeaderLine{{Name: "authorization", Value: "secret"}},
	}
}

func TestAnotherProtocolIsReportedAsHTTPIs(t *testing.T) {
	p := spoken(func(r probe.Request) probe.Answer {
		if r.Get("key") == "" || r.Get("authorization") != "secret" {
			return probe.Answer{Err: errors.New("incomplete")}
		}
		return probe.Answer{Status: 409, Code: "TAKEN"}
	})
	report, err := p.Run(t.Context(), spokenRecipe(), probe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Profile != "spoken" || report.Target != "spoken://here:1" || report.Requests != 1 {
		t.Errorf("report of %s at %s, %d requests", report.Profile, report.Target, report.Requests)
	}
	failed, _ := report.Find("P01")
	if failed.Verdict != probe.Fail || failed.Why != "why" || failed.Fix != "fix" || failed.Findings[0].Text != "got TAKEN" {
		t.Errorf("P01: %+v", failed)
	}
	if e := failed.Timeline[0]; e.Status != 409 || e.Code != "TAKEN" || e.Answer != "TAKEN" || e.Connection != 1 || e.Request != "make (credential A)" {
		t.Errorf("exchange: %+v", e)
	}
	if o, _ := report.Find("P02"); o.Verdict != probe.NA {
		t.Errorf("P02: %s, want N/A", o.Verdict)
	}
}

func TestAnotherProtocolKeepsToTheBudget(t *testing.T) {
	r := spokenRecipe()
	r.Limits.Requests = 1
	p := spoken(func(probe.Request) probe.Answer { return probe.Answer{Status: 200, Code: "OK"} })
	p.Cases = append(p.Cases[:1], p.Cases[0])
	report, err := p.Run(t.Context(), r, probe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if last := report.Outcomes[1].Timeline[0]; report.Requests != 1 || !strings.Contains(last.Error, "as many requests as it may") {
		t.Errorf("%d requests, then %q", report.Requests, last.Error)
	}
}

func TestAnotherProtocolChecksTheRecipeFirst(t *testing.T) {
	p := spoken(func(probe.Request) probe.Answer { t.Error("a request was made"); return probe.Answer{} })
	p.Check = func(r probe.Request) error { return errors.New(r.Path + " cannot be said") }
	if _, err := p.Run(t.Context(), spokenRecipe(), probe.Options{}); err == nil || !strings.Contains(err.Error(), "make cannot be said") {
		t.Errorf("error %v", err)
	}
	wrong := spokenRecipe()
	wrong.Variants.Slow = &probe.Template{Path: "{{word}}"}
	if _, err := p.Run(t.Context(), wrong, probe.Options{}); err == nil {
		t.Error("a place that no generator fills was let through")
	}
}
