//go:build unix

package guides

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/pages"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// guide is a list of pages that a reader follows in one folder.
type guide struct {
	name     string
	pages    []step
	database bool // the reader has a PostgreSQL server at localhost:5432
}

// step is the blocks of a page that are marked run=NAME.
type step struct{ page, run string }

var all = []guide{
	{
		name: "proxy, then PostgreSQL", database: true,
		pages: []step{{"getting-started-proxy", "proxy"}, {"postgres", "postgres"}},
	},
	{name: "README", pages: []step{{"../README", "readme"}}},
	{name: "library", pages: []step{{"getting-started-library", "library"}}},
	{
		name: "exactly once, then webhooks", database: true,
		pages: []step{{"exactly-once", "once"}, {"receiving-webhooks", "webhooks"}},
	},
	{name: "Go and PostgreSQL", database: true, pages: []step{{"getting-started-postgres-go", "go"}}},
}

// A new user on a new machine follows the guides: the test runs each command and saves each file as shown, and
// compares the output with the guide. The machine has Go, curl, psql, Python with psycopg and an empty module cache; the
// modules of this repository come from the files that `make pack` writes. Only the ports are replaced, so that tests
// can run concurrently. The README's first program is followed, too.
//
// Seen to fail with an option of curl misspelled, with --role left out of `migrate up` in docs/postgres.md, with
// another status line on a page, with listen left out of the file in the proxy's guide, and with log.Fatal in place
// of the clean shutdown in the program of the library's guide; with safe taken out of the README's program; with accept:
// inbox taken out of the file in docs/receiving-webhooks.md.
func TestGuidesWorkAsWritten(t *testing.T) {
	machine := newMachine(t)
	for _, g := range all {
		t.Run(g.name, func(t *testing.T) {
			r := &reader{machine: machine, t: t, folder: t.TempDir(), ports: freePorts(t)}
			if g.database {
				pg := servers.StartPostgres(t, servers.PostgresOptions{})
				r.ports["5432"] = portOf(t, pg.URL("postgres"))
			}
			defer r.stopAll()
			for _, s := range g.pages {
				r.follow(s)
			}
		})
	}
}

// machine is the environment of the commands.
type machine struct{ environment []string }

// newMachine packs the working tree, and returns a machine of a new user.
func newMachine(t *testing.T) machine {
	t.Helper()
	home, packed, programs := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Symlink(servers.PythonWith(t, "psycopg"), filepath.Join(programs, "python3")); err != nil {
		t.Fatal(err)
	}
	// With the version of internal/release's tests, which have compiled the same packages.
	pack := exec.CommandContext(t.Context(), "make", "-s", "-C", "../..", "pack", "DIR="+packed, "VERSION=v0.0.1-test")
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("make pack: %v\n%s", err, out)
	}
	// Third-party modules come from the test's module cache if possible. The build cache is kept (-trimpath makes it
	// independent of the folder), so that only the first run on a machine is slow.
	proxies := []string{
		"file://" + packed, "file://" + filepath.Join(goEnv(t, "GOMODCACHE"), "cache", "download"),
		goEnv(t, "GOPROXY"),
	}
	return machine{environment: []string{
		"HOME=" + home, "GOPATH=" + filepath.Join(home, "go"),
		"PATH=" + filepath.Join(home, "go", "bin") + ":" + programs + ":" + os.Getenv("PATH"),
		"GOPROXY=" + strings.Join(proxies, ","), "GOSUMDB=off", "GOWORK=off", "GOTOOLCHAIN=local",
		"GOFLAGS=-trimpath -modcacherw",
		"CGO_ENABLED=0", // as in the tests of internal/release
		"GOCACHE=" + goEnv(t, "GOCACHE"), "TMPDIR=" + t.TempDir(), "LC_ALL=C",
	}}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// freePorts maps the ports in the guides to free ones, which stay free while a guide compiles its programs.
func freePorts(t *testing.T) map[string]string {
	ports := map[string]string{}
	for _, port := range []string{"3000", "3001", "8080", "8081", "8082"} {
		ports[port] = fmt.Sprint(servers.ReservePort(t))
	}
	return ports
}

func portOf(t *testing.T, url string) string {
	t.Helper()
	found := regexp.MustCompile(`@127\.0\.0\.1:(\d+)/`).FindStringSubmatch(url)
	if found == nil {
		t.Fatalf("no port in %s", url)
	}
	return found[1]
}

var local = regexp.MustCompile(`\b(localhost|127\.0\.0\.1):(\d+)`)

// adapt replaces the ports in a text.
func (r *reader) adapt(text string) string {
	return local.ReplaceAllStringFunc(text, func(found string) string {
		host, port, _ := strings.Cut(found, ":")
		if r.ports[port] == "" {
			r.t.Fatalf("the guide uses %s, which this test does not replace: see freePorts", found)
		}
		return host + ":" + r.ports[port]
	})
}

// follow follows the blocks of a page.
func (r *reader) follow(s step) {
	r.t.Helper()
	blocks, err := pages.Read("../../docs/" + s.page + ".md")
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for _, b := range blocks {
		if b.Run != s.run {
			if b.Run != "" {
				r.t.Errorf("%s: run=%s is followed by no test", b.At(), b.Run)
			}
			continue
		}
		n++
		if b.File != "" {
			if err := os.WriteFile(filepath.Join(r.folder, b.File), []byte(r.adapt(b.Text)), 0o600); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		r.run(b)
	}
	if n == 0 {
		r.t.Fatalf("%s has no blocks with run=%s", s.page, s.run)
	}
}
