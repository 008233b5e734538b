package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// wrongEnv says by how much the clock of a program from buildWithWrongClock is wrong.
const wrongEnv = "RETRYSAFE_TORTURE_CLOCK"

// TortureWithWrongClocks is Torture with processes a third of whose clocks are an hour fast, and another third an hour
// slow. A store that asks its server for the time does not notice. Only the package of the test has wrong clocks. It
// runs in parallel with other tests.
func (s Subject) TortureWithWrongClocks(t *testing.T, rounds int) {
	t.Helper()
	t.Parallel()
	if s.Now == nil {
		t.Fatal("Subject.Now is missing: the clocks cannot be seen to be wrong")
	}
	clocks := []time.Duration{0, time.Hour, -time.Hour}
	s.start(t, special{program: buildWithWrongClock(t), clocks: clocks}).
		torture(rounds, wrongBy(time.Hour), wrongBy(-time.Hour), "complete ok", "claim in flight")
}

func wrongBy(d time.Duration) string { return "clock wrong by " + d.String() }

// buildWithWrongClock builds this test binary with a package whose clock is wrong: it calls other functions than
// time.Now and time.Since. Go programs read the clock past the C library, where it could be replaced at run time, and
// a standard library with another clock would take a minute to compile.
func buildWithWrongClock(t *testing.T) (path string) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	dir, replace, pkg := t.TempDir(), map[string]string{}, ""
	add := func(name, text string) {
		here, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		replace[here] = filepath.Join(dir, name)
		write(t, replace[here], text)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file.Name.Name, "_test") {
			continue // examples, which are another package
		}
		pkg = file.Name.Name
		wrong := strings.NewReplacer("time.Now()", "wrongNow()", "time.Since(", "wrongSince(").Replace(string(text))
		if wrong != string(text) {
			add(name, wrong+"\nvar _ time.Time // it is imported\n")
		}
	}
	add("wrong.go", fmt.Sprintf(wrongText, pkg, wrongEnv))
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), string(overlay))
	path = filepath.Join(dir, "wrong.test")
	build := exec.Command("go", "test", "-c", "-race", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"),
		"-o", path, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, bytes.TrimSpace(out))
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const wrongText = `package %s

import (
	"os"
	"time"
)

func wrongNow() time.Time {
	by, err := time.ParseDuration(os.Getenv(%q))
	if err != nil {
		panic(err)
	}
	return time.Now().Add(by)
}

func wrongSince(t time.Time) time.Duration { return wrongNow().Sub(t) }
`
