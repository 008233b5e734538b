package report_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
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
		"profile ietf, effects counted, 12 requests in 3 s, 2026-01-02 03:04 UTC", "\nMismatch\n", "M01 PASS",
		"M05 N/A", "FAIL M02 other body, critical",
		"checks   Another body is refused.", "found    FAIL: the answer is thing-2", "why      It is done twice.",
		"fix      Compare.",
		"source   the draft §2.7", "1 retry thing-2", `POST /things?thing-2  key kthing-2  thing-2`,
		`in 4 ms                    → 201 replay {"id":"thing-2"}`,
		"1 FAIL  1 BROKEN  1 WARN  1 INFO  1 PASS  1 N/A", "retry-safe: no: 1 of the 4 cases played failed: M02\n",
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
	r.Causes = []probe.Cause{{Text: "the API ignores the key", Begin: "M02", Cases: []string{"M02"}}}
	const says = "1 of 1 FAILs have one cause: the API ignores the key. Begin with M02."
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
	for e, says := range map[probe.Evidence]string{
		probe.ByIdentity: "shown by identities",
		probe.ByCount:    "effects counted", probe.ByArrival: "effects received",
	} {
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
	for _, c := range cases.All() {
		o := probe.Outcome{ID: c.ID, Safe: c.Safe, Draft: c.Draft, Verdict: probe.Pass}
		if v, ok := but[c.ID]; ok {
			o.Verdict = v
		}
		r.Outcomes = append(r.Outcomes, o)
	}
	return r
}

// The verdict needs no arithmetic, and its reason names what is missing. Seen to fail while scores were fractions: a
// report without a FAIL had 18/20, and one with a FAIL 20/20.
func TestScores(t *testing.T) {
	t.Parallel()
	const met = "all 20 cases of the badge passed"
	for _, c := range []struct {
		name    string
		but     map[string]probe.Verdict
		verdict string
		says    string
	}{
		{"all pass", nil, report.Yes, met},
		{
			"INFO within: it was played, and the profile says nothing",
			map[string]probe.Verdict{"B04": probe.Info},
			report.Yes, met,
		},
		{
			"WARN within",
			map[string]probe.Verdict{"B04": probe.Warn},
			report.NotShown,
			"only 19 of the badge's 20 cases passed; open: B04 WARN",
		},
		{
			"N/A within, for want of a recipe",
			map[string]probe.Verdict{"X01": probe.NA, "X04": probe.NA},
			report.NotShown, "open: X01 N/A, X04 N/A",
		},
		{"BROKEN within", map[string]probe.Verdict{"B04": probe.Broken}, report.NotShown, "open: B04 BROKEN"},
		{
			"FAIL within",
			map[string]probe.Verdict{"B04": probe.Fail, "T02": probe.NA},
			report.No,
			fmt.Sprintf("1 of the %d cases played failed: B04", len(cases.All())-1),
		},
		{"FAIL elsewhere", map[string]probe.Verdict{"T01": probe.Fail}, report.No, "failed: T01"},
		{"FAIL and N/A", map[string]probe.Verdict{"T01": probe.Fail, "X01": probe.NA}, report.No, "failed: T01"},
		{"WARN elsewhere", map[string]probe.Verdict{"T01": probe.Warn}, report.Yes, met},
	} {
		s := report.Safe(gated("ietf", c.but))
		if s.Verdict != c.verdict || s.OK() != (c.verdict == report.Yes) || !strings.Contains(s.Reason, c.says) {
			t.Errorf("%s: %v, want %s because %s", c.name, s, c.verdict, c.says)
		}
	}
}

// The badges are promises about these cases: one that comes or goes changes what they say.
func TestBadgesAskForAsManyCasesAsTheySay(t *testing.T) {
	t.Parallel()
	if safe, draft := report.Safe(gated("ietf", nil)), report.Draft(gated("ietf", nil)); safe.Asked != 20 ||
		draft.Asked != 27 {
		t.Errorf("the badges ask for %d and %d cases, want 20 and 27", safe.Asked, draft.Asked)
	}
}

func TestScoreOfAnotherProfile(t *testing.T) {
	t.Parallel()
	r := gated("stripe", map[string]probe.Verdict{"B04": probe.NA})
	for i := range r.Outcomes {
		r.Outcomes[i].NotInProfile = r.Outcomes[i].ID == "B04"
	}
	if s := report.Safe(r); !s.OK() || s.Asked != 19 {
		t.Errorf("a case that the profile does not have counts: %v, want yes, of 19", s)
	}
}

// What --only leaves out is not known, and that is not a bad mark.
func TestScoreOfAPartOfTheCases(t *testing.T) {
	t.Parallel()
	r := gated("ietf", nil)
	r.Outcomes = r.Outcomes[:3]
	s := report.Safe(r)
	const want = "not shown: nothing failed, but only 3 of the badge's 20 cases passed; open: B04 not played, K04 " +
		"not played, K06 not played, K09 not played, M01 not played and 12 more"
	if s.String() != want {
		t.Errorf("three cases make %q, want %q", s, want)
	}
	if s := report.Draft(gated("ietf", map[string]probe.Verdict{"T04": probe.Warn})); s.OK() || s.Passed != s.Asked-1 {
		t.Errorf("the badge of the draft does without T04: %v", s)
	}
	if s := report.Safe(&probe.Report{}); s.Verdict != report.NotShown {
		t.Errorf("a run that was ended at once: %v", s)
	}
}

// Each form has the verdict, and all but the badge have the reason.
func TestScoreIsInEveryForm(t *testing.T) {
	t.Parallel()
	r := gated("ietf", map[string]probe.Verdict{"B02": probe.Fail, "X01": probe.NA})
	reason := fmt.Sprintf("1 of the %d cases played failed: B02", len(cases.All())-1)
	for form, want := range map[string][]string{
		"table":    {"retry-safe: no: " + reason, "ietf: no: " + reason},
		"markdown": {"- **retry-safe: no** (" + reason + ")", "- **ietf: no**"},
		"html":     {"<b>retry-safe</b> no", "Not safe to retry", reason},
		"junit":    {`name="retry-safe" value="no: ` + reason}, "sarif": {`"retrySafe": "no: ` + reason},
		"badge": {"retry-safe: no"}, "json": {
			`"scores": [`, `"name": "retry-safe"`, `"verdict": "no"`,
			`"reason": "` + reason, `"asked": 20`, `"X01 N/A"`,
		},
	} {
		got := written(t, form, r)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s lacks %q:\n%s", form, w, got)
			}
		}
	}
}
