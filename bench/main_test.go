package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/bench/figure"
	real "github.com/retrysafe/retrysafe/internal/testing/servers"
)

// TestMain runs a role when a test starts this program again.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "-role" {
		if err := playRole(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A single caller cannot share syncs. A claim and a completion need two of them, a few more for checkpoints, and
// never fewer.
//
// Seen to fail with PRAGMA synchronous=OFF in sqlitestore (0 syncs), and with Datasync taken out of the raw log.
func TestAPairOfOneCallerIsTwoSyncs(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "syncs")
	got, err := call[results](t.Context(), place{trace: trace}, pairs{
		race: race{1, 2 * time.Second}, Dir: t.TempDir(), Callers: 1, Theirs: 1, Trace: trace,
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := got[theirs].Syncs.Median(); n != 2 {
		t.Errorf("raw log: %v syncs a pair, want 2", n)
	}
	if n := got[ours].Syncs.Median(); n < 2 || n > 2.1 {
		t.Errorf("sqlitestore: %v syncs a pair, want 2 (up to 2.1 with checkpoints)", n)
	}
}

// Seen to fail with a goroutine for the heartbeat in Guard, and with an Extend before the work.
func TestACallInFlightHasNoGoroutineAndTwoStoreCalls(t *testing.T) {
	goroutines, extraCalls, err := countInFlight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if goroutines != 0 || extraCalls != 0 {
		t.Errorf("%v goroutines and %v more store calls per call, want none", goroutines, extraCalls)
	}
}

// The modules that a user links are measured here: the root and the middleware add no module, the embedded store few.
//
// Seen to fail with an import of fiber in httpsafe.
func TestModulesLinked(t *testing.T) {
	if got := modulesOf(t, "github.com/retrysafe/retrysafe/httpsafe"); len(got) != 1 {
		t.Errorf("httpsafe links %v, want the root alone", got)
	}
	const most = 12
	if got := modulesOf(t, "github.com/retrysafe/retrysafe/stores/sqlitestore"); len(got) > most {
		t.Errorf("sqlitestore links %d modules, want at most %d: %v", len(got), most, got)
	}
}

// modulesOf returns the modules that are linked into a program that imports the package.
func modulesOf(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}",
		pkg).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pkg, err)
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	return slices.Compact(modules)
}

// Seen to fail with the messages left out of the error of end.
func TestARoleThatFailsSaysWhy(t *testing.T) {
	_, err := call[int](t.Context(), place{}, extra{})
	if err == nil || !strings.Contains(err.Error(), `no role "extra"`) {
		t.Errorf("got %v, want what the role has said", err)
	}
}

// extra is not among the roles.
type extra struct{}

func (extra) play(context.Context, func(any) error) (any, error) { return nil, nil }

func TestParseGoals(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "goal1": {1}, "goal1, 3": {1, 3}} {
		if got, err := parseGoals(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"goal0", "goal11", "x", "1,,2"} {
		if got, err := parseGoals(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// Seen to fail with the check of the number of runs taken out of costOf.
func TestASubjectThatSkipsTheWorkCannotWin(t *testing.T) {
	if _, err := costOf(idle{}, []string{"a", "b"}, 2); err == nil {
		t.Error("no error although the work never ran")
	}
}

// idle answers without doing the work.
type idle struct{}

func (idle) Serve(string) error { return nil }
func (idle) Ran() int           { return 0 }

// Seen to fail with the replacement taken out of fail.
func TestResultsNameNoPathOfTheMachine(t *testing.T) {
	r := &run{log: io.Discard, began: time.Now(), dir: t.TempDir(), Machine: thisMachine()}
	r.try(t.Context(), goal{number: 3, measure: func(context.Context, *run) error {
		_, err := os.Open(filepath.Join(r.dir, "absent"))
		return err
	}})
	r.Figures = []figure.Figure{{
		Goal: 1, What: "something", Unit: "x", Samples: []float64{1, 2, 3},
		Target: figure.AtLeast(2),
	}}
	var text strings.Builder
	writeReport(&text, runs{r})
	for _, part := range []string{
		"Goal 3 was not measured", "within the spread", runtime.Version(),
		"0 targets are met, 1 within the spread only",
	} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the results do not say %q:\n%s", part, text.String())
		}
	}
	if strings.Contains(text.String(), r.dir) {
		t.Errorf("the results name %s:\n%s", r.dir, text.String())
	}
}

func TestAGoalThatFailsDoesNotStopTheOthers(t *testing.T) {
	var log, out strings.Builder
	r := &run{log: &log, began: time.Now(), dir: t.TempDir()}
	r.try(context.Background(), goal{number: 3, measure: func(context.Context, *run) error { return os.ErrNotExist }})
	writeReport(&out, runs{r})
	if !strings.Contains(out.String(), "Goal 3 was not measured: file does not exist") {
		t.Errorf("the report does not tell of the failure:\n%s", out.String())
	}
}

// The released command is one binary, and it stays small.
//
// Seen to fail with bench's Restate SDK imported in cmd/retrysafe.
func TestTheBinaryIsSmall(t *testing.T) {
	binary, err := real.Retrysafe()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	// pgx, OpenTelemetry with the Prometheus exporter, gRPC for the probe, and the SDK of AWS brought most of them. The
	// exporter of traces (OTLP over HTTP) brought the last 6: its protocol's messages import gRPC-Gateway and genproto's
	// api, although nothing of them is called. The last 2 are Tink, for encryption, and the package around it.
	// Three are for the login at an OpenID provider: go-oidc, go-jose and oauth2.
	const mostModules = 87
	if len(info.Deps) > mostModules {
		t.Errorf("it links %d modules, want at most %d", len(info.Deps), mostModules)
	}
	// The clients of Redis, NATS, MySQL and DynamoDB took the last 15. rueidis has most of it: a method for each option of
	// each command, which the linker keeps.
	// Tink, for encryption, and the dashboard took one and a half, and the login at an OpenID provider and the inbox one.
	const mostBytes = 55 * mib
	if file, err := os.Stat(binary); err != nil || file.Size() > mostBytes {
		t.Errorf("it has %d bytes (%v), want at most %d", file.Size(), err, mostBytes)
	}
}
