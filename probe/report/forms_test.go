package report_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
)

func TestJUnit(t *testing.T) {
	t.Parallel()
	var got struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
			Skipped  int `xml:"skipped,attr"`
			Cases    []struct {
				Class   string `xml:"classname,attr"`
				Name    string `xml:"name,attr"`
				Time    string `xml:"time,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
				Out     string    `xml:"system-out"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(written(t, "junit", reportWith("<2>"))), &got); err != nil {
		t.Fatal(err)
	}
	s := got.Suites[0]
	if s.Tests != 6 || s.Failures != 1 || s.Errors != 1 || s.Skipped != 1 {
		t.Errorf("%d tests, %d failures, %d errors, %d skipped; want 6, 1, 1, 1", s.Tests, s.Failures, s.Errors, s.Skipped)
	}
	fail := s.Cases[1]
	if fail.Class != "probe.Mismatch" || fail.Name != "M02 other body" || fail.Time != "0.020" || fail.Failure == nil ||
		fail.Failure.Message != "the answer is <2>" || !strings.Contains(fail.Failure.Text, "fix: Compare.") {
		t.Errorf("the failed case is %+v", fail)
	}
	if s.Cases[0].Failure != nil || s.Cases[4].Skipped == nil || s.Cases[5].Error == nil ||
		!strings.HasPrefix(s.Cases[2].Out, "WARN: ") {
		t.Errorf("the cases end wrongly: %+v", s.Cases)
	}
}

func TestSARIF(t *testing.T) {
	t.Parallel()
	var got struct {
		Version string `json:"version"`
		Runs    []struct {
			Tool struct {
				Driver struct {
					Rules []struct{ ID string } `json:"rules"`
				} `json:"driver"`
			} `json:"tool"`
			Results []struct {
				RuleID    string                `json:"ruleId"`
				RuleIndex int                   `json:"ruleIndex"`
				Level     string                `json:"level"`
				Message   struct{ Text string } `json:"message"`
				Locations []struct {
					Physical struct {
						Artifact struct{ URI string } `json:"artifactLocation"`
					} `json:"physicalLocation"`
				} `json:"locations"`
				Fingerprints map[string]string `json:"partialFingerprints"`
			} `json:"results"`
		} `json:"runs"`
	}
	if err := json.Unmarshal([]byte(written(t, "sarif", reportWith("x"))), &got); err != nil {
		t.Fatal(err)
	}
	run := got.Runs[0]
	if got.Version != "2.1.0" || len(run.Tool.Driver.Rules) != 6 {
		t.Errorf("version %s, %d rules; want 2.1.0, 6", got.Version, len(run.Tool.Driver.Rules))
	}
	var ids []string
	for _, r := range run.Results {
		ids = append(ids, r.RuleID+" "+r.Level)
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID ||
			r.Locations[0].Physical.Artifact.URI != "payments.yaml" || r.Message.Text == "" ||
			len(r.Fingerprints["caseAtTarget/v1"]) != 32 {
			t.Errorf("result %+v", r)
		}
	}
	if want := "[M02 error M03 warning M06 error]"; fmt.Sprint(ids) != want {
		t.Errorf("results %v, want %s", ids, want)
	}
}

func TestBadge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r            *probe.Report
		text, colour string
	}{
		{gated("ietf", nil), "retry-safe: yes · ietf: yes", "#1a7f37"},
		{gated("stripe", nil), "retry-safe: yes", "#1a7f37"},
		{gated("ietf", map[string]probe.Verdict{"T04": probe.Warn}), "retry-safe: yes", "#1a7f37"},
		{gated("ietf", map[string]probe.Verdict{"B02": probe.NA}), "retry-safe: not shown", "#8a5a00"},
		{gated("ietf", map[string]probe.Verdict{"T01": probe.Fail}), "retry-safe: no", "#b3261e"},
	} {
		got := written(t, "badge", c.r)
		if !strings.Contains(got, `aria-label="`+c.text+`"`) || !strings.Contains(got, `fill="`+c.colour+`"`) {
			t.Errorf("want %s in %s:\n%s", c.text, c.colour, got)
		}
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	got := written(t, "markdown", reportWith("@you"))
	for _, want := range []string{
		`| M02 | **FAIL** | other body | the answer is \@<!-- -->you (+1 more) |`,
		"## FAIL: M02 other body (critical)", "**How to fix it.** Compare.",
		"- 1 FAIL, 1 BROKEN, 1 WARN, 1 INFO, 1 PASS, 1 N/A",
		`| 1 | retry \@<!-- -->you: POST /things?\@<!-- -->you | key k\@<!-- -->you |`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}
