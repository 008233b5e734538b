package report_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/report"
)

// Every form groups a report by its routes. Seen to fail with Route taken out of Join (all forms), with Sections
// returning the report itself (junit, sarif), and with anchorOf taken out of rowOf (html).
func TestRoutes(t *testing.T) {
	pay, refund := reportWith("x"), reportWith("x")
	pay.Route, refund.Route = "pay", "refund"
	refund.Outcomes = refund.Outcomes[:1] // PASS only
	pay.Causes = []probe.Cause{{Text: "the API ignores the key", Begin: "M02", Cases: []string{"M02", "M06"}}}
	joined := probe.Join([]*probe.Report{pay, refund})
	if s := report.Safe(joined); s.Verdict != report.No || len(s.Failed) != 1 || s.Failed[0] != "pay M02" || s.Asked != 40 {
		t.Errorf("%+v", s)
	}
	for form, parts := range map[string][]string{
		"table":    {"\nRoute pay\n", "\nRoute refund\n", "FAIL pay: M02 other body", "pay: 2 of 1 FAILs have one cause"},
		"markdown": {"## Route pay\n", "## Route refund\n", "## FAIL: pay: M02 other body"},
		"junit": {
			`<testsuite name="retrysafe probe: pay"`, `<testsuite name="retrysafe probe: refund"`,
			`classname="probe.pay.Mismatch"`, `<testsuites name="retrysafe probe" tests="7" failures="1"`,
		},
		"sarif": {`"retrysafe-probe/ietf/pay"`, `"retrysafe-probe/ietf/refund"`},
		"html": {
			`<article id="pay-M02"`, `<a href="#pay-M02">`, "pay: Mismatch", "refund: Mismatch", `id="pay-M02-chart"`,
			"refund: header",
		},
		"json":  {`"route": "pay"`, `"route": "refund"`, `"name": "refund"`},
		"badge": {"retry-safe: no"},
	} {
		text := written(t, form, joined)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %s:\n%s", form, part, text)
			}
		}
	}
	var read probe.Report
	if err := json.Unmarshal([]byte(written(t, "json", joined)), &read); err != nil {
		t.Fatal(err)
	}
	if all := read.Sections(); len(all) != 2 || len(all[0].Outcomes) != 6 || all[1].Outcomes[0].Route != "refund" ||
		len(all[0].Causes) != 1 || all[1].Observed.Header != "Idempotency-Key" {
		t.Errorf("sections of what was written as JSON: %+v", all)
	}
}

// The forms find the key where the API has it. Seen to fail with fieldOf taken out of keyOf.
func TestKeysOfOtherPlaces(t *testing.T) {
	for name, seen := range map[string]probe.Observed{
		"POST /x?a=1&key=in%20the%20query HTTP/1.1\r\n\r\n{}":           {Query: "key"},
		"POST /x HTTP/1.1\r\n\r\na=1&key=in+the+query&b=2":              {Member: "key"},
		"POST /x HTTP/1.1\r\n\r\n{\"meta\":{\"key\":\"in the query\"}}": {Pointer: "/meta/key"},
	} {
		r := reportWith("x")
		r.Observed = seen
		r.Outcomes[1].Timeline[0].Request = name
		if text := written(t, "junit", r); !strings.Contains(text, "key in the query") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
