//go:build unix

package probecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/probe"
)

// shop is an API that knows nothing of keys, and counts what it has made.
type shop struct {
	*httptest.Server
	made atomic.Int64
}

func newShop(t *testing.T) *shop {
	s := &shop{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"made": %d}`, s.made.Load())
			return
		}
		body, _ := io.ReadAll(r.Body)
		if !json.Valid(body) || r.Header.Get("Authorization") == "" {
			http.Error(w, "send JSON, and say who you are", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id": "payment-%d"}`, s.made.Add(1))
	}))
	t.Cleanup(s.Close)
	return s
}

// recipeFor writes a recipe for an API at an address, with more lines, and returns its name.
func recipeFor(t *testing.T, address, more string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "payments.yaml")
	text := "target: " + address + `
request:
  path: /payments
  headers: {Content-Type: application/json}
  body: '{"amount": {{amount}}}'
identity: {pointer: /id}
credentials:
  a: {Authorization: "Bearer ${PROBE_A}"}
  b: {Authorization: Bearer bob}
` + more
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func probeWith(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.RunWith(t, []string{"PROBE_A=s3cret"}, append([]string{"probe"}, args...)...)
}

// Seen to fail with the exit code of a FAIL made 0.
func TestProbeAnAPIThatIsNotSafe(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	got := probeWith(t, "--only=B", "--recipe", recipeFor(t, s.URL, "count: {get: {path: /count, pointer: /made}}\n"))
	clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
	clitest.WantText(t, "table", got.Stdout, "B02 FAIL", "effects counted")
	clitest.WantText(t, "what it says", got.Stderr, "against "+s.URL, "by the rules of ietf",
		"POST /payments, at most 5000 requests", "500 a second", "GET /count", "Basics: ", " FAIL", "failed")
	if strings.Contains(got.Stdout+got.Stderr, "s3cret") {
		t.Errorf("the credential is shown:\n%s", got.Stdout)
	}
}

// All reports of a run behind the proxy, which makes the same API safe.
func TestProbeReportsInFiles(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	p := clitest.StartProxy(t, "--upstream="+s.URL, "--store=memory:")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	got := probeWith(t, p.URL, "--only=B01,B02,B03,B04", "--recipe", recipeFor(t, "http://127.0.0.1:1", ""), "--json",
		"--html", at("r.html"), "--junit", at("r.xml"), "--sarif", at("r.sarif"), "--badge", at("r.svg"),
		"--observed", at("o.json"))
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	var r probe.Report
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil {
		t.Fatalf("%v\n%s", err, got.Stdout)
	}
	clitest.Want(t, "passed", r.Count(probe.Pass), 4)
	clitest.Want(t, "target", r.Target, p.URL)
	for name, part := range map[string]string{
		"r.html": "<html", "r.xml": "<testsuite", "r.sarif": "2.1.0",
		"r.svg": "<svg", "o.json": probe.ObservedSchema,
	} {
		text, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		clitest.WantText(t, name, string(text), part)
	}
}

// A report that cannot be written takes no other one with it, and not what the run has found.
//
// Seen to fail with write ending at the first error: no table, and no "r.xml".
func TestAReportThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	xml := filepath.Join(t.TempDir(), "r.xml")
	got := probeWith(t, "--only=B01,B02", "--recipe", recipeFor(t, s.URL, ""), "--html=/dev/full", "--junit="+xml)
	clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
	clitest.WantText(t, "table", got.Stdout, "B02 FAIL")
	clitest.WantText(t, "error", got.Stderr, "--html: write /dev/full", "1 case failed")
	text, err := os.ReadFile(xml)
	clitest.Must(t, err)
	clitest.WantText(t, "r.xml", string(text), "<testsuite")
}

// Seen to fail with writePart taken out of play, and with Play returning at the first error: 0 requests.
func TestAnInterruptedRunShowsWhatItFound(t *testing.T) {
	t.Setenv("PROBE_A", "s3cret")
	s := newShop(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.made.Load() == 10 {
			stop()
		}
		s.Config.Handler.ServeHTTP(w, r)
	}))
	defer target.Close()
	c := runCmd{Recipe: recipeFor(t, target.URL, ""), Only: []string{"B"}}
	file, address, err := c.load()
	clitest.Must(t, err)
	choice, err := c.chooseFor(file.Protocol())
	clitest.Must(t, err)
	var out strings.Builder
	err = c.play(ctx, &cli.Streams{Out: &out, Err: io.Discard}, file, address, choice)
	clitest.WantText(t, "error", fmt.Sprint(err), "interrupted after ", fmt.Sprintf(" of %d cases", len(choice)))
	clitest.WantText(t, "table", out.String(), "B02 FAIL")
	if strings.Contains(out.String(), " 0 requests") {
		t.Errorf("the requests were not counted:\n%s", out.String())
	}
}

// A remote target is tested only after the recipe, a flag and an answer have said that it is the user's own.
func TestProbeRefusesWhatIsNotOnThisMachine(t *testing.T) {
	t.Parallel()
	mine := recipeFor(t, "http://192.0.2.1", "i_own_this: true\n")
	somebodys := recipeFor(t, "http://192.0.2.1", "")
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{
			"nothing said",
			[]string{"--recipe", somebodys},
			[]string{"http://192.0.2.1", "not on this machine", "i_own_this: true", "--allow-remote"},
		},
		{"the recipe alone", []string{"--recipe", mine}, []string{"--allow-remote"}},
		{"the flag alone", []string{"--recipe", somebodys, "--allow-remote"}, []string{"i_own_this: true"}},
		{"without a terminal", []string{"--recipe", mine, "--allow-remote"}, []string{"at most 5000 requests", "--yes"}},
		{
			"on the command line",
			[]string{"http://192.0.2.2", "--recipe", recipeFor(t, "http://127.0.0.1:1", "")},
			[]string{"192.0.2.2"},
		},
		{
			"a name that looks local",
			[]string{"http://localhost.example.test", "--recipe", somebodys},
			[]string{"localhost.example.test"},
		},
	} {
		got := probeWith(t, c.args...)
		clitest.Want(t, c.name+": exit code", got.Code, cli.ExitRefused)
		clitest.WantText(t, c.name, got.Stderr, c.says...)
	}
}

func TestProbeRefuses(t *testing.T) {
	t.Parallel()
	recipe := recipeFor(t, "http://127.0.0.1:1", "")
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"no recipe", nil, []string{"recipe.yaml", "probe init"}},
		{
			"a recipe that is wrong",
			[]string{"--recipe", recipeFor(t, "http://127.0.0.1:1", "limts: {}\n")},
			[]string{"payments.yaml:10:1", `did you mean "limits"?`},
		},
		{"a target that is none", []string{"localhost", "--recipe", recipe}, []string{"http://127.0.0.1:8080"}},
		{"a recipe in place of a target", []string{recipe}, []string{"payments.yaml is a file", "--recipe"}},
		{"a profile", []string{"--profile=x", "--recipe", recipe}, []string{"ietf-strict"}},
		{"a case", []string{"--only=Q01", "--recipe", recipe}, []string{"Q01", "--list"}},
		{"no case left", []string{"--only=B01", "--skip=B", "--recipe", recipe}, []string{"no case to play"}},
		{
			"a report in no directory",
			[]string{"--html=/nowhere/at/all/r.html", "--recipe", recipe},
			[]string{"--html", "/nowhere/at/all"},
		},
		{"a report in place of a folder", []string{"--junit=..", "--recipe", recipe}, []string{"--junit", "is a directory"}},
		{"a count in no file", []string{"--recipe", recipeFor(t, "http://127.0.0.1:1",
			"count: {sql: {url: no.db, query: select 1}}\n")}, []string{"no.db"}},
		{"a case to explain", []string{"--explain=Q01"}, []string{"Q01"}},
	} {
		got := probeWith(t, c.args...)
		clitest.Want(t, c.name+": exit code", got.Code, cli.ExitRefused)
		clitest.WantText(t, c.name, got.Stderr, c.says...)
		clitest.Want(t, c.name+": output", got.Stdout, "")
	}
}

// If the recipe's request does not work, that is said once.
func TestProbeStopsIfTheFirstRequestDoesNotWork(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	recipe := recipeFor(t, s.URL, "")
	s.Close()
	got := probeWith(t, "--recipe", recipe)
	clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
	clitest.WantText(t, "error", got.Stderr, "nothing else was tried", "payments.yaml")
	clitest.Want(t, "broken cases", strings.Count(got.Stdout, "BROKEN B"), 1)
}

func TestProbeListsAndExplains(t *testing.T) {
	t.Parallel()
	all := probeWith(t, "--list")
	clitest.Want(t, "exit code", all.Code, cli.ExitOK)
	clitest.WantText(t, "list", all.Stdout, "B01", "M01", "safe")
	safe := probeWith(t, "--list", "--safe", "--skip=b")
	if strings.Contains(safe.Stdout, "\nB") || len(safe.Stdout) >= len(all.Stdout) {
		t.Errorf("the list is not shortened:\n%s", safe.Stdout)
	}
	one := probeWith(t, "--explain=b04")
	clitest.Want(t, "exit code", one.Code, cli.ExitOK)
	clitest.WantText(t, "explanation", one.Stdout, "with two different keys runs twice", "Severity", "--only B04")
}

// The count is the database's: an API that only says that it has charged is found out.
func TestProbeCountsInPostgres(t *testing.T) {
	t.Parallel()
	pg, s := clitest.Postgres.Get(t), newShop(t)
	url := clitest.AsUser(pg.Database(t), "postgres:s3cret")
	pg.PsqlAt(t, url, "create table charges (amount numeric); insert into charges values (7)")
	count := func(query string) string {
		return recipeFor(t, s.URL, fmt.Sprintf("count: {sql: {url: %q, query: %q}}\n", url, query))
	}
	got := probeWith(t, "--only=B02", "--recipe", count("select count(*) from charges"))
	clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
	clitest.WantText(t, "table", got.Stdout, "B02 FAIL", "0 effects")
	wrong := probeWith(t, "--only=B02", "--recipe", count("delete from charges returning 1"))
	clitest.Want(t, "exit code", wrong.Code, cli.ExitRefused)
	clitest.WantText(t, "error", wrong.Stderr, "read-only")
	clitest.Want(t, "charges", pg.PsqlAt(t, url, "select count(*) from charges"), "1")
	if strings.Contains(got.Stdout+got.Stderr+wrong.Stderr, "s3cret") {
		t.Errorf("the password is shown:\n%s%s", got.Stderr, wrong.Stderr)
	}
}
