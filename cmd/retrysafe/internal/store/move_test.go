package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

func emptyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.db")
	clitest.Must(t, os.WriteFile(path, nil, 0o600))
	return path
}

func run(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, append([]string{"store", "move"}, args...)...)
}

// How long both stores are needed is said before anything else, because it decides whether to move at all. Seen to fail
// with howLong taken out of the text and out of the JSON of explain.
func TestStagesAreExplained(t *testing.T) {
	from, to := emptyFile(t), emptyFile(t)
	got := run(t, "--from="+from, "--to="+to)
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	if !strings.HasPrefix(got.Stdout, "Stage 2 lasts for one retention") {
		t.Errorf("it does not begin with how long a move takes:\n%s", got.Stdout)
	}
	clitest.WantText(t, "how long", got.Stdout, "both stores must run for so long", "24h by default")
	clitest.WantText(t, "how long, in JSON", run(t, "--from="+from, "--to="+to, "--json").Stdout,
		"Stage 2 lasts for one retention", "both stores must run for so long")
	clitest.WantText(t, "stages", got.Stdout, "store: "+from+"\n", "store: move:1?from="+from+"&to="+to+"\n",
		"store: move:2?from="+from+"&to="+to+"\n", "store: "+to+"\n")
	got = run(t, "--from="+from, "--to="+to, "--stage=1", "--json")
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "JSON", got.Stdout, `"go_on":true`, `"stage":1`, "their clocks agree")
}

// Seen to fail with the case of Quiet taken out: with a time before now no claim is recent, and stage 2 was allowed.
func TestMoveRefuses(t *testing.T) {
	from := emptyFile(t)
	for want, args := range map[string][]string{
		"--from: ":                 {"--from=memory:", "--to=" + from},
		"--to: memory: is":         {"--from=" + from, "--to=memory:"},
		"--stage must be 1, 2":     {"--from=" + from, "--to=" + from + "2", "--stage=4"},
		"--quiet must not be":      {"--from=" + from, "--to=" + emptyFile(t), "--stage=2", "--quiet=-1m"},
		"are the same store":       {"--from=" + from, "--to=" + from},
		"a move within a move":     {"--from=" + from, "--to=move:1?from=a.db&to=b.db"},
		"unsupported store scheme": {"--from=" + from, "--to=ftp://h"},
	} {
		got := run(t, args...)
		clitest.Want(t, want+" exit code", got.Code, cli.ExitRefused)
		clitest.WantText(t, want, got.Stderr, want)
	}
}

// in opens the store in a file for a moment.
func in(t *testing.T, path string, do func(s retrysafe.Store)) {
	t.Helper()
	s, err := sqlitestore.Open(path, sqlitestore.Options{})
	clitest.Must(t, err)
	do(s)
	clitest.Must(t, s.Close())
}

// acquire claims a key for a day, saves steps, and leaves the key abandoned.
func acquire(t *testing.T, s retrysafe.Store, id string, steps ...string) retrysafe.Lease {
	t.Helper()
	const day = 24 * time.Hour
	c, err := s.Claim(t.Context(), retrysafe.ClaimParams{
		Key: retrysafe.Key{ID: id}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
		Keep: retrysafe.Retention{Replay: day, Key: day, Audit: day},
	})
	clitest.Must(t, err)
	for _, name := range steps {
		clitest.Must(t, s.Checkpoint(t.Context(), c.Lease, retrysafe.StepResult{Name: name}))
	}
	clitest.Must(t, s.Extend(t.Context(), c.Lease, 0))
	return c.Lease
}

// Stage 3 begins when the new store has all that the old one says of each key. Seen to fail with each case of covers
// taken out.
func TestLastStage(t *testing.T) {
	end := func(keep time.Duration) func(s retrysafe.Store, l retrysafe.Lease) {
		return func(s retrysafe.Store, l retrysafe.Lease) {
			clitest.Must(t, s.Complete(t.Context(), l, retrysafe.Result{}, retrysafe.Retention{
				Replay: keep, Key: keep, Audit: time.Hour,
			}))
		}
	}
	release := func(s retrysafe.Store, l retrysafe.Lease) { clitest.Must(t, s.Release(t.Context(), l)) }
	for name, c := range map[string]struct {
		old, next       []string // steps; nil: there is no record
		endOld, endNext func(retrysafe.Store, retrysafe.Lease)
		allowed         bool
	}{
		"the key is in the old store alone":           {old: []string{}},
		"a step is in the old store alone":            {old: []string{"a", "b"}, next: []string{"a"}},
		"the key was released in the old store alone": {old: []string{"a"}, endOld: release},
		"the answer is in the old store alone":        {old: []string{"a"}, endOld: end(time.Hour), next: []string{"a"}},
		"the new store gave the key back":             {old: []string{"a"}, next: []string{"a"}, endNext: release},
		"people alone can read the new record":        {old: []string{}, next: []string{}, endNext: end(1)},
		"both have the steps":                         {old: []string{"a"}, next: []string{"b", "a"}, allowed: true},
		"the new store has the answer":                {old: []string{"a"}, next: []string{}, endNext: end(time.Hour), allowed: true},
		"the old record protects nothing any more":    {old: []string{}, endOld: end(1), allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := emptyFile(t), emptyFile(t)
			for path, side := range map[string]struct {
				steps []string
				end   func(retrysafe.Store, retrysafe.Lease)
			}{from: {c.old, c.endOld}, to: {c.next, c.endNext}} {
				in(t, path, func(s retrysafe.Store) {
					if side.steps == nil {
						return
					}
					if l := acquire(t, s, "k", side.steps...); side.end != nil {
						side.end(s, l)
					}
				})
			}
			got := run(t, "--from="+from, "--to="+to, "--stage=3")
			clitest.Want(t, "exit code", got.Code, map[bool]int{true: 0, false: 1}[c.allowed])
		})
	}
}
