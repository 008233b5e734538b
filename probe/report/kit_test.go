package report_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/report"
)

// forms are all that a report can be written as.
func forms() map[string]func(w io.Writer, r *probe.Report) error {
	return map[string]func(w io.Writer, r *probe.Report) error{
		"html": report.HTML, "junit": report.JUnit, "badge": report.Badge, "markdown": report.Markdown, "json": report.JSON,
		"table": func(w io.Writer, r *probe.Report) error { return report.Table(w, r, report.TableOptions{}) },
		"sarif": func(w io.Writer, r *probe.Report) error {
			return report.SARIF(w, r, report.SARIFOptions{Recipe: "payments.yaml", Version: "1"})
		},
	}
}

// written is a report in a form.
func written(t testing.TB, form string, r *probe.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := forms()[form](&b, r); err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	return b.String()
}

// reportWith has an outcome of each verdict, and a text wherever a target, a recipe or a key can bring one in.
func reportWith(text string) *probe.Report {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &probe.Report{
		Schema: probe.ReportSchema, Target: "http://" + text, Profile: "ietf", BeganAt: began, Took: 3 * time.Second,
		Requests: 12, Evidence: probe.ByCount,
		Observed: probe.Observed{
			Profile: "ietf", Header: "Idempotency-Key", Marker: "Idempotent-Replayed",
			PolicyURL: "x" + text, RetryWithin: time.Second,
		},
	}
	for i, v := range []probe.Verdict{probe.Pass, probe.Fail, probe.Warn, probe.Info, probe.NA, probe.Broken} {
		r.Outcomes = append(r.Outcomes, probe.Outcome{
			ID: fmt.Sprintf("M%02d", i+1), Name: "other body", Checks: "Another body is refused.",
			Source: "the draft §2.7", Severity: probe.Critical,
			Verdict: v, Evidence: probe.ByCount, Why: "It is done twice.", Fix: "Compare.", Took: 20 * time.Millisecond,
			Findings: []probe.Finding{{Verdict: v, Text: "the answer is " + text}, {Verdict: probe.Info, Text: text + " more"}},
			Timeline: []probe.Exchange{exchange(1, began, text), exchange(2, began.Add(5*time.Millisecond), text)},
		})
	}
	return r
}

func exchange(no int, at time.Time, text string) probe.Exchange {
	key := strings.NewReplacer("\n", "", "\r", "").Replace(text)
	return probe.Exchange{
		No: no, Connection: no, Label: "retry " + text, SentAt: at, EndedAt: at.Add(4 * time.Millisecond),
		Status: 201, Error: "cut off: " + text,
		Request: "POST /things?" + key + " HTTP/1.1\r\nHost: x\r\nIdempotency-Key: \"k" + key +
			"\"\r\nAuthorization: (credential A)\r\n\r\n" + text,
		Answer: "201\nIdempotent-Replayed: true\nX: " + key + "\n\n{\"id\":\"" + text + "\"}",
	}
}
