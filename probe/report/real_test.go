package report_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/internal/target"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// What a run has really found has a place in each form.
func TestFormsOfARealRun(t *testing.T) {
	t.Parallel()
	r := realRun(t, target.NoKeys, "B01", "B02")
	for form, want := range map[string][]string{
		"html":  {`<article id="B02"`, `<rect class="bar k0 good"`, "POST /things HTTP/1.1", "(credential A)"},
		"table": {"B01 PASS", "B02 FAIL", "2 retry"},
		"junit": {"<failure"}, "sarif": {`"ruleId": "B02"`}, "markdown": {"FAIL: B02"}, "badge": {"retry-safe: no"},
		"json": {`"verdict": "FAIL"`},
	} {
		got := written(t, form, r)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s lacks %q:\n%s", form, w, got)
			}
		}
		if strings.Contains(got, "secret-a") {
			t.Errorf("%s tells the credential", form)
		}
	}
}

// A run of all cases has each of them in each form for people and for programs. With the race detector it watches the
// cases, too: package cases, which judges what they find, runs without it (Makefile).
//
// Seen to fail with the N/A left out of the JUnit file.
func TestFormsOfAWholeRun(t *testing.T) {
	t.Parallel()
	r := realRun(t, target.LookThenRun)
	for _, form := range []string{"html", "table", "json", "junit"} {
		got := written(t, form, r)
		for _, c := range cases.All() {
			if !strings.Contains(got, c.ID) {
				t.Errorf("%s lacks %s", form, c.ID)
			}
		}
	}
}

// realRun plays some cases, or all, against an API with a fault.
func realRun(t *testing.T, fault target.Fault, ids ...string) *probe.Report {
	t.Helper()
	_, server := target.Start(t, fault)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	template := probe.Template{Path: "/things", Header: []wire.HeaderLine{{
		Name:  "Content-Type",
		Value: "application/json",
	}}, Body: `{"amount": {{amount}}}`}
	r, err := cases.Run(t.Context(), probe.Recipe{
		Target: u, Request: template, Identity: probe.Identity{Pointer: "/id"},
		A: []wire.HeaderLine{{Name: "Authorization", Value: "Bearer secret-a"}},
	}, probe.Options{Only: ids})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
