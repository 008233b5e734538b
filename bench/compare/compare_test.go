package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
)

// What the pages call versions are those that are installed. Seen to fail with another version in subject.go.
func TestVersionsAreThoseThatArePinned(t *testing.T) {
	pinned := ""
	for _, name := range []string{"../go.mod", "../peers/express/package.json", "../peers/restate/package.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pinned += string(text)
	}
	for _, s := range subjects()[4:] {
		for _, part := range strings.Split(s.Version, " with ") {
			name, version, _ := strings.Cut(part, " ")
			if !strings.Contains(pinned, name+` `+version+"\n") && !strings.Contains(pinned, `"`+name+`": "`+version+`"`) {
				t.Errorf("%s: %s %s is not what is pinned", s.Name, name, version)
			}
		}
	}
}

// Seen to fail with N/A shown as a verdict, and with a row for every case.
func TestMatrixHasACellForEachSubject(t *testing.T) {
	found := func(name string, verdicts ...probe.Verdict) result {
		report := new(probe.Report)
		for i, v := range verdicts {
			report.Outcomes = append(report.Outcomes, probe.Outcome{ID: cases.All()[i].ID, Verdict: v})
		}
		return result{
			subject: subject{Name: name, Column: name},
			reports: map[string]*probe.Report{"none": report, "ietf": report},
		}
	}
	text := matrix([]result{
		found("left", probe.Pass, probe.Fail, probe.NA),
		found("right", probe.Warn, probe.NA, probe.NA),
	}, "none")
	for _, want := range []string{
		"| case | checks | left | right |\n|", "| B01 | ", " | pass | warn |\n",
		" | **FAIL** | – |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "| B03 |") {
		t.Errorf("a case that was not played has a row:\n%s", text)
	}
}

// Seen to fail with BROKEN left out.
func TestEveryVerdictOfTheOverviewIsCounted(t *testing.T) {
	report := &probe.Report{Outcomes: []probe.Outcome{
		{ID: "B01", Verdict: probe.Broken},
		{ID: "B02", Verdict: probe.Fail},
	}}
	rows := totalRows(result{
		subject: subject{Name: "x", Column: "x"},
		reports: map[string]*probe.Report{"none": report, "ietf": report},
	})
	if len(rows) != 2 || rows[0][3] != "1, 1 BROKEN" {
		t.Errorf("got %q", rows)
	}
}

// Seen to fail with the title kept.
func TestAReportIsMadePartOfAPage(t *testing.T) {
	got := within("# Probe of x\n\nProfile none.\n\n## FAIL: M01\n")
	if want := "Profile none.\n\n### FAIL: M01\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Effects are counted over a restart, and strangers are told nothing. Seen to fail without the look at the credential.
func TestTheAPICountsItsEffects(t *testing.T) {
	a := api{effects: effects(filepath.Join(t.TempDir(), "effects"))}
	for _, try := range []struct {
		as, path, body string
		status         int
	}{
		{"a", "/orders", `{"amount": 7}`, 201},
		{"b", "/orders/large", `{"amount": 7}`, 201},
		{"none", "/orders", `{"amount": 7}`, 401},
		{"a", "/orders", `{"amount": `, 400},
		{"a", "/orders/failing", `{}`, 402},
		{"a", "/orders/broken", `{}`, 500},
	} {
		r := httptest.NewRequest(http.MethodPost, try.path, strings.NewReader(try.body))
		r.Header.Set("Authorization", "Bearer "+try.as)
		w := httptest.NewRecorder()
		a.authenticated(a.handler()).ServeHTTP(w, r)
		if w.Code != try.status {
			t.Errorf("%s as %s: got %d, want %d", try.path, try.as, w.Code, try.status)
		}
	}
	if n, err := a.effects.count(); n != 2 || err != nil {
		t.Errorf("got %d effects, %v", n, err)
	}
}
