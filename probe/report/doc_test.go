package report_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/report"
)

// The schema of the JSON form is a promise to programs: it says something of each field. Seen to fail with a field
// added to Exchange.
func TestDocumentationNamesEveryField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/probe-report.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = body
	}
	for title, v := range map[string]any{
		"The report": probe.Report{}, "Outcomes": probe.Outcome{}, "Findings": probe.Finding{},
		"Exchanges": probe.Exchange{}, "Scores": report.Score{}, "The observed profile": probe.Observed{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			if !field.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || !strings.Contains(sections[title], "\n| `"+name+"` |") {
				t.Errorf("section %q does not describe %T.%s (%q)", title, v, field.Name, name)
			}
		}
	}
	for _, v := range []string{probe.ReportSchema, probe.ObservedSchema} {
		if !strings.Contains(string(text), v) {
			t.Errorf("the page does not name the schema %s", v)
		}
	}
}
