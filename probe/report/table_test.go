package report_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/report"
)

func TestTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, text := range append(hostile(), "short") {
		for l := range strings.Lines(written(t, "table", reportWith(text))) {
			if n := utf8.RuneCountInString(strings.ReplaceAll(strings.TrimRight(l, "\n"), "\u0301", "")); n > 100 {
				t.Errorf("%.20q: a line of %d columns: %s", text, n, l)
			}
		}
	}
}

func TestTableSaysWhatToDo(t *testing.T) {
	t.Parallel()
	got := written(t, "table", reportWith("thing-2"))
	for _, want := range []string{
		"profile ietf, effects counted (E2), 12 requests in 3 s, 2026-01-02 03:04 UTC", "\nMismatch\n", "M01 PASS", "M05 N/A", "FAIL M02 other body, critical",
		"checks   Another body is refused.", "found    FAIL: the answer is thing-2", "why      It is done twice.", "fix      Compare.",
		"source   the draft §2.7", "1 retry thing-2", `POST /things?thing-2  key kthing-2  thing-2`, `in 4 ms                    → 201 replay {"id":"thing-2"}`,
		"1 FAIL  1 BROKEN  1 WARN  1 INFO  1 PASS  1 N/A", "1 FAIL\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "PASS M01") || strings.Contains(got, "INFO M04") {
		t.Error("the table explains what needs no explanation")
	}
}

func TestTableOfManyRequestsIsShort(t *testing.T) {
	t.Parallel()
	r := reportWith("x")
	o := &r.Outcomes[1]
	for range 6 {
		o.Timeline, o.Findings = append(o.Timeline, o.Timeline...), append(o.Findings, o.Findings...)
	}
	got := written(t, "table", r)
	if n := strings.Count(got, "\n"); n > 140 {
		t.Errorf("%d lines", n)
	}
	for _, want := range []string{"… and 116 more: see", "… and 116 more\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the table does not say that it leaves out 116: %q", want)
		}
	}
}

// gated has all cases, with one verdict but for those that are named.
func gated(profile string, but map[string]probe.Verdict) *probe.Report {
	r := &probe.Report{Profile: profile}
	for _, c := range probe.Cases() {
		o := probe.Outcome{ID: c.ID, Safe: c.Safe, Draft: c.Draft, Verdict: probe.Pass}
		if v, ok := but[c.ID]; ok {
			o.Verdict = v
		}
		r.Outcomes = append(r.Outcomes, o)
	}
	return r
}

func TestGates(t *testing.T) {
	t.Parallel()
	all := report.Safe(gated("ietf", nil)).Of
	for _, c := range []struct {
		name  string
		but   map[string]probe.Verdict
		met   int
		isMet bool
	}{
		{"all pass", nil, all, true},
		{"INFO within: it was played, and the profile says nothing", map[string]probe.Verdict{"B04": probe.Info}, all, true},
		{"WARN within", map[string]probe.Verdict{"B04": probe.Warn}, all - 1, false},
		{"N/A within, for want of a recipe", map[string]probe.Verdict{"B04": probe.NA}, all - 1, false},
		{"BROKEN within", map[string]probe.Verdict{"B04": probe.Broken}, all - 1, false},
		{"FAIL within", map[string]probe.Verdict{"B04": probe.Fail}, all - 1, false},
		{"FAIL elsewhere", map[string]probe.Verdict{"T01": probe.Fail}, all, false},
		{"WARN elsewhere", map[string]probe.Verdict{"T01": probe.Warn}, all, true},
	} {
		if g := report.Safe(gated("ietf", c.but)); g.Met != c.met || g.OK() != c.isMet || g.Of != all {
			t.Errorf("%s: %v (%v), want %d of %d (%v)", c.name, g, g.OK(), c.met, all, c.isMet)
		}
	}
}

// The badges are promises about these cases: one that comes or goes changes what they say.
func TestGatesAskForAsManyCasesAsTheySay(t *testing.T) {
	t.Parallel()
	if safe, draft := report.Safe(gated("ietf", nil)), report.Draft(gated("ietf", nil)); safe.Of != 20 || draft.Of != 27 {
		t.Errorf("the gates have %d and %d cases, want 20 and 27", safe.Of, draft.Of)
	}
}

func TestGateOfAnotherProfile(t *testing.T) {
	t.Parallel()
	all := report.Safe(gated("ietf", nil)).Of
	r := gated("stripe", map[string]probe.Verdict{"B04": probe.NA})
	for i := range r.Outcomes {
		r.Outcomes[i].NotInProfile = r.Outcomes[i].ID == "B04"
	}
	if g := report.Safe(r); !g.OK() || g.Of != all-1 {
		t.Errorf("a case that the profile does not have counts: %v, want %d of %d", g, all-1, all-1)
	}
}

func TestGateOfAPartOfTheCases(t *testing.T) {
	t.Parallel()
	r := gated("ietf", nil)
	r.Outcomes = r.Outcomes[:3]
	if g := report.Safe(r); g.OK() || g.Met != 3 {
		t.Errorf("three cases make %v: what was not played is not known", g)
	}
	if g := report.Draft(gated("ietf", map[string]probe.Verdict{"T04": probe.Warn})); g.OK() || g.Met != g.Of-1 {
		t.Errorf("the badge of the draft does without T04: %v", g)
	}
}
