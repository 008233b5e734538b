package storecmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
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

func TestStagesAreExplained(t *testing.T) {
	from, to := emptyFile(t), emptyFile(t)
	got := run(t, "--from="+from, "--to="+to)
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "stages", got.Stdout, "store: "+from+"\n", "store: move:1?from="+from+"&to="+to+"\n",
		"store: move:2?from="+from+"&to="+to+"\n", "store: "+to+"\n")
	got = run(t, "--from="+from, "--to="+to, "--stage=1", "--json")
	clitest.Want(t, "exit code", got.Code, cli.ExitOK)
	clitest.WantText(t, "JSON", got.Stdout, `"go_on":true`, `"stage":1`, "their clocks agree")
}

func TestMoveRefuses(t *testing.T) {
	from := emptyFile(t)
	for want, args := range map[string][]string{
		"--from: ":                 {"--from=memory:", "--to=" + from},
		"--to: memory: is":         {"--from=" + from, "--to=memory:"},
		"--stage must be 1, 2":     {"--from=" + from, "--to=" + from + "2", "--stage=4"},
		"are the same store":       {"--from=" + from, "--to=" + from},
		"a move within a move":     {"--from=" + from, "--to=move:1?from=a.db&to=b.db"},
		"unsupported store scheme": {"--from=" + from, "--to=ftp://h"},
	} {
		got := run(t, args...)
		clitest.Want(t, want+" exit code", got.Code, cli.ExitRefused)
		clitest.WantText(t, want, got.Stderr, want)
	}
}
