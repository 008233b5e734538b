package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/bench/compare/orders"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
)

// pages is the folder that the command writes, from here.
const pages = "../../docs/compare"

// What the pages call versions are those that are installed. Seen to fail with another version in subject.go.
func TestVersionsAreThoseThatArePinned(t *testing.T) {
	shared := read(t, "../go.mod") + read(t, "../peers/restate/package.json") +
		read(t, "../../internal/testing/servers/nats.mod")
	for _, s := range subjects() {
		if s.Kind == ourselves || s.Kind == gateway { // which Debian has in one version
			continue
		}
		pinned := shared
		for _, name := range []string{"package.json", "subject.mod"} {
			if text, err := folders.ReadFile(s.Folder() + "/" + name); err == nil {
				pinned += string(text)
			}
		}
		for part := range strings.SplitSeq(s.Version, " with ") {
			name, version, _ := strings.Cut(part, " ")
			if !strings.Contains(pinned, name+` `+version+"\n") && !strings.Contains(pinned, name+` `+version+" // indirect\n") &&
				!strings.Contains(pinned, `"`+name+`": "`+version+`"`) {
				t.Errorf("%s: %s %s is not what is pinned", s.Name, name, version)
			}
		}
	}
}

// The index and the pages are those of the subjects in the table, in the versions there, by the cases that the probe
// has. Seen to fail with another version and with a subject's name changed in subject.go, with a FAIL made a PASS in
// results.json, and with a verdict changed in a row of fiber.md.
func TestPagesAreWhatTheResultsSay(t *testing.T) {
	all, err := readResults(filepath.Join(pages, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := index(subjects(), all)
	if err != nil {
		t.Fatal(err)
	}
	if read(t, filepath.Join(pages, "README.md")) != text {
		t.Error("docs/compare/README.md is not what subject.go, subjects/overview.md and results.json make")
	}
	for _, s := range subjects() {
		found, ok := all[s.Name]
		if !ok || found.Version != s.Version {
			t.Errorf("%s: results.json has version %q: run go run ./bench/compare -only %s", s.Name, found.Version, s.Name)
			continue
		}
		page := read(t, filepath.Join(pages, s.Name+".md"))
		notes, err := s.Notes()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page, notes) || !strings.HasPrefix(page, "# "+s.Title+"\n\n"+s.Version+";") {
			t.Errorf("%s.md does not have the notes, title and version of its subject", s.Name)
		}
		for _, profile := range s.judgedBy() {
			checkVerdicts(t, s.Name, profile, page, found.Profiles[profile])
		}
		delete(all, s.Name)
	}
	for name := range all {
		t.Errorf("results.json has a subject %s that subject.go lacks", name)
	}
	files, err := filepath.Glob(filepath.Join(pages, "*.md"))
	if err != nil || len(files) != len(subjects())+1 {
		t.Errorf("docs/compare has %d pages, %v; want one for each of %d subjects, and the index", len(files), err, len(subjects()))
	}
}

// checkVerdicts checks that the part of a page that is about a profile has the verdicts of the results.
func checkVerdicts(t *testing.T, name, profile, page string, s score) {
	t.Helper()
	_, part, _ := strings.Cut(page, "\n## Profile `"+profile+"`")
	part, _, _ = strings.Cut(part, "\n## ")
	if len(s.Verdicts) == 0 {
		t.Errorf("%s: results.json has nothing of profile %s", name, profile)
	}
	for id, v := range s.Verdicts {
		shown := string(v)
		if v == probe.Fail || v == probe.Broken {
			shown = "**" + shown + "**"
		}
		if !strings.Contains(part, "\n| "+id+" | "+shown+" |") {
			t.Errorf("%s.md, profile %s: %s is not %s", name, profile, id, v)
		}
	}
}

// Every subject has notes that say how it was set up, and an explanation if a case failed.
// Seen to fail with the last heading of the notes of fiber renamed.
func TestNotesExplainFails(t *testing.T) {
	all, err := readResults(filepath.Join(pages, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects() {
		notes, err := s.Notes()
		if err != nil {
			t.Fatal(err)
		}
		headings := []string{"## How it was set up\n", "## What it promises\n"}
		if all[s.Name].Profiles["none"].count(probe.Fail) > 0 {
			headings = append(headings, "## What stands behind the FAILs\n")
		}
		for _, h := range headings {
			if _, text, ok := strings.Cut(notes, h); !ok || strings.TrimSpace(text) == "" {
				t.Errorf("%s/notes.md lacks %q", s.Folder(), strings.TrimSpace(h))
			}
		}
	}
}

// Seen to fail with N/A shown as a verdict, and with a row for every case.
func TestMatrixHasACellForEachSubject(t *testing.T) {
	found := func(verdicts ...probe.Verdict) found {
		s := score{Verdicts: map[string]probe.Verdict{}}
		for i, v := range verdicts {
			s.Verdicts[cases.All()[i].ID] = v
		}
		return found{Profiles: map[string]score{"none": s}}
	}
	text := matrix([]subject{{Name: "left"}, {Name: "right"}, {Name: "elsewhere"}}, results{
		"left":  found(probe.Pass, probe.Fail, probe.NA),
		"right": found(probe.Warn, probe.NA, probe.NA),
	}, "none")
	for _, want := range []string{"| case | checks | 1 | 2 |\n|", "| B01 | ", " | p | w |\n", " | **F** | – |\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "| B03 |") {
		t.Errorf("a case that was not played has a row:\n%s", text)
	}
}

// Seen to fail with BROKEN left out.
func TestEveryVerdictOfTheIndexIsCounted(t *testing.T) {
	s := score{Verdicts: map[string]probe.Verdict{"B01": probe.Broken, "B02": probe.Fail}}
	row := indexRow(1, subject{Name: "x", Column: "x"}, found{Profiles: map[string]score{"none": s}})
	if row[6] != "1, 1 BROKEN" {
		t.Errorf("got %q", row)
	}
}

// A subject that does not start ends the run with an error that names it and has the end of its log. Seen to fail with
// the subject's name taken out of the error of compare.
func TestASubjectThatDoesNotStartIsNamed(t *testing.T) {
	s := subject{Name: "absent", Version: "x", runs: runner{command: func(role) *exec.Cmd {
		return exec.Command("/bin/sh", "-c", "echo no such port; exit 1")
	}}}
	err := compare(t.Context(), []subject{s}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "absent: ") || !strings.Contains(err.Error(), "no such port") {
		t.Errorf("got %v", err)
	}
}

// Seen to fail with the title kept.
func TestAReportIsMadePartOfAPage(t *testing.T) {
	got := within("# Probe of x\n\nProfile none.\n\n## FAIL: M01\n")
	if want := "Profile none.\n\n### FAIL: M01\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Effects are counted over a restart, and strangers are told nothing. Both forms of the API, the one on net/http and the
// one whose work is a job, are alike. Seen to fail without the look at the credential, and with the failing path taken
// out of Do.
func TestTheAPICountsItsEffects(t *testing.T) {
	for name, of := range map[string]func(orders.API) http.Handler{
		"handler": orders.API.Handler,
		"jobs": func(a orders.API) http.Handler {
			return a.Jobs(func(_ context.Context, _ string, j orders.Job) (orders.Answer, error) { return a.Do(j) })
		},
	} {
		a := orders.API{Effects: filepath.Join(t.TempDir(), "effects")}
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
			a.Authenticated(of(a)).ServeHTTP(w, r)
			if w.Code != try.status || w.Code == 201 && w.Header().Get("Location") == "" {
				t.Errorf("%s: %s as %s: got %d, %v, want %d", name, try.path, try.as, w.Code, w.Header(), try.status)
			}
		}
		if n, err := a.Count(); n != 2 || err != nil {
			t.Errorf("%s: got %d effects, %v", name, n, err)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
