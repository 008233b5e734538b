package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The service is killed at both places, in each language and with each driver: one charge each, the stored answer for
// the first caller or the retry, and no outcome unknown. The service that completes after its transaction charges twice.
//
// Seen to fail with complete taken out of the transaction of charge in the two programs.
func TestServiceKilledInItsTransaction(t *testing.T) {
	t.Parallel()
	python := servers.PythonWith(t, "psycopg", "psycopg2")
	withoutPsycopg := t.TempDir()
	clitest.Must(t, os.WriteFile(filepath.Join(withoutPsycopg, "psycopg.py"), []byte("raise ImportError()"), 0o600))
	for name, environment := range map[string][]string{
		"psycopg":  {pathWith(t, python)},
		"psycopg2": {pathWith(t, python), "PYTHONPATH=" + withoutPsycopg},
		"node":     {pathWith(t, servers.Node(t)), "NODE_PATH=" + servers.NodePostgres(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, ok := findLanguage(t.Context(), environment)
			if !ok {
				t.Fatal("no language found")
			}
			report, output, charges := playServiceForTest(t, l)
			if len(report.Wrong) > 0 || len(report.Scenes) != 2 || charges != 2 {
				t.Errorf("%d scenes, %d charges, wrong: %q; want 2 of each, and nothing wrong\n%s", len(report.Scenes), charges,
					report.Wrong, output)
			}
			clitest.WantText(t, "output", output, append(l.handler(), "kill -9", "2 requests, 2 charges: the proxy")...)
			if strings.Contains(output, "outcome-unknown") {
				t.Errorf("an outcome is unknown:\n%s", output)
			}
		})
	}
}

// playServiceForTest plays the scenes with the service alone.
func playServiceForTest(t *testing.T, l language) (*Report, string, int) {
	t.Helper()
	ref, err := store.Parse(clitest.Migrated(t))
	clitest.Must(t, err)
	var out bytes.Buffer
	s := &stage{screen: &screen{w: &out}, options: Options{
		Binary: clitest.Binary, Store: Store{Name: ref.Name, URL: ref.URL, Postgres: ref.Postgres},
	}}
	report := &Report{}
	charges, err := s.playServiceIn(t.Context(), l, t.TempDir(), report)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return report, out.String(), charges
}

// pathWith returns a PATH in which there is only this program.
func pathWith(t *testing.T, program string) string {
	t.Helper()
	folder := t.TempDir()
	clitest.Must(t, os.Symlink(program, filepath.Join(folder, filepath.Base(program))))
	return "PATH=" + folder
}

// Seen to fail with the check of the driver taken out: a Python without one is taken, and the service does not start.
func TestLanguageWithoutADriverIsPassedOver(t *testing.T) {
	t.Parallel()
	node, modules := servers.Node(t), servers.NodePostgres(t)
	bare := filepath.Join(t.TempDir(), "python3")
	clitest.Must(t, os.WriteFile(bare, []byte("#!/bin/sh\nexit 1\n"), 0o700))
	environment := []string{
		pathWith(t, bare) + string(filepath.ListSeparator) + strings.TrimPrefix(pathWith(t, node), "PATH="),
		"NODE_PATH=" + modules,
	}
	if l, ok := findLanguage(t.Context(), environment); !ok || l.name != "Node" {
		t.Errorf("got %q, want Node", l.name)
	}
	if l, ok := findLanguage(t.Context(), environment[:1]); ok {
		t.Errorf("got %q without its driver", l.name)
	}
}

// The README shows the handler that the demo kills, without the places where it stands still.
//
// Seen to fail with a line of the README changed.
func TestREADMEShowsTheService(t *testing.T) {
	page, err := os.ReadFile("../../../../README.md")
	clitest.Must(t, err)
	handler := language{program: "service.py", function: "def charge("}.handler()
	var want []string
	for _, line := range handler[1:] {
		if !strings.Contains(line, "reach(") {
			want = append(want, line)
		}
	}
	clitest.WantText(t, "README.md", string(page), strings.Join(want, "\n")+"\n```", handler[0])
}
