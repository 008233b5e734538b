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
	r := realRun(t)
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

// realRun plays two cases against an API that knows no keys.
func realRun(t *testing.T) *probe.Report {
	t.Helper()
	_, server := target.Start(t, target.NoKeys)
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
	}, probe.Options{Only: []string{"B01", "B02"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
