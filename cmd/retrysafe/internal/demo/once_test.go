package demo

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// A connection to the database that breaks does not end the service in Node, whether it is idle or in a transaction: an
// error for which there is no listener ends the process there.
//
// Seen to fail with "pool.on('error')" and "client.on('error')" taken out of service.js, each in its case.
func TestABrokenConnectionDoesNotEndTheService(t *testing.T) {
	t.Parallel()
	node := []string{pathWith(t, servers.Node(t)), "NODE_PATH=" + servers.NodePostgres(t)}
	for _, stopAfter := range []string{"", "INSERT"} {
		t.Run("stopped after "+stopAfter, func(t *testing.T) {
			t.Parallel()
			l, ok := findLanguage(t.Context(), node)
			if !ok {
				t.Fatal("Node is not found")
			}
			pg, url := clitest.Postgres.Get(t), clitest.Migrated(t)
			ref, err := store.Parse(url)
			clitest.Must(t, err)
			s, err := newService(t.Context(), l, ref.Postgres, t.TempDir())
			clitest.Must(t, err)
			t.Cleanup(s.close)
			clitest.Must(t, s.start(t.Context(), stopAfter))

			lease := pg.PsqlAt(t, url, "SELECT lease FROM retrysafe.claim('shop', 'order-17')")
			r, err := newClient(s.address).request(t.Context(), coffee())
			clitest.Must(t, err)
			r.Header.Set("Retrysafe-Lease", lease)
			answered := make(chan int, 1)
			go func() { // has no answer if the service stands still
				defer close(answered)
				if res, err := http.DefaultClient.Do(r); err == nil {
					res.Body.Close()
					answered <- res.StatusCode
				}
			}()
			if stopAfter == "" {
				clitest.Want(t, "status", clitest.WaitFor(t, answered, "the answer"), http.StatusCreated)
			} else {
				clitest.Must(t, s.await(t.Context(), stopAfter))
			}
			pg.PsqlAt(t, url, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "+
				"WHERE datname = current_database() AND pid <> pg_backend_pid()")
			text, late := "", time.Now().Add(time.Minute)
			for ; !strings.Contains(text, "terminating connection"); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(late) {
					t.Fatalf("the service has not noticed:\n%s", text)
				}
				log, err := os.ReadFile(s.log())
				clitest.Must(t, err)
				text = string(log)
			}
			res, err := http.Get("http://" + s.address)
			if err != nil {
				log, _ := os.ReadFile(s.log())
				t.Fatalf("the service has ended: %v\n%s", err, log)
			}
			res.Body.Close()
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
