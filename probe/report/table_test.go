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

// What the FAILs have in common is said first, in each form that people read, and in JSON as it is.
func TestCausesComeFirst(t *testing.T) {
	t.Parallel()
	r := reportWith("x")
	r.Causes = []probe.Cause{{Text: "the API takes no notice of the key", Begin: "M02", Cases: []string{"M02"}}}
	const says = "1 of 1 FAILs have one cause: the API takes no notice of the key. Begin with M02."
	for form, before := range map[string]string{"table": "Mismatch", "html": "What to look at", "markdown": "| case |"} {
		got := strings.ReplaceAll(written(t, form, r), `<a href="#M02">`, "")
		if at := strings.Index(got, says); at < 0 || at > strings.Index(got, before) {
			t.Errorf("%s does not begin with the cause:\n%s", form, got)
		}
	}
	if got := written(t, "json", r); !strings.Contains(got, `"begin": "M02"`) {
		t.Errorf("json lacks the cause:\n%s", got)
	}
	if got := written(t, "table", r); strings.Count(got, says) != 2 {
		t.Errorf("the end of the table, which a terminal shows, lacks the cause:\n%s", got)
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	r := reportWith("x")
	for e, says := range map[probe.Evidence]string{probe.ByIdentity: "identities (E1)", probe.ByCount: "counted (E2)", probe.BySink: "received (E3)"} {
		r.Evidence = e
		if got := written(t, "table", r); !strings.Contains(got, says) {
			t.Errorf("%s: %s", e, got[:200])
		}
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
