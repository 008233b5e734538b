package keysetcmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// A rotation by hand: each file decrypts what the one before has encrypted, and only its owner may read it.
func TestRotationOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keyset.json")
	run := func(says string, args ...string) string {
		t.Helper()
		got := clitest.Run(t, append([]string{"keyset"}, args...)...)
		if all := got.Stdout + got.Stderr; (got.Code == 0) == strings.HasPrefix(says, "retrysafe: ") || !strings.Contains(all, says) {
			t.Fatalf("%v: %d %s, want it to say %q", args, got.Code, all, says)
		}
		info, err := os.Stat(file)
		clitest.Must(t, err)
		clitest.Want(t, "mode", info.Mode().Perm(), 0o600)
		return got.Stdout
	}
	run("", "new", file)
	first, err := store.LoadKeyset(file)
	clitest.Must(t, err)
	run("retrysafe: "+file+" exists", "new", file)
	run("keyset promote "+file, "rotate", file)
	both, err := store.LoadKeyset(file)
	clitest.Must(t, err)
	clitest.Want(t, "the primary key", both.Keys()[0], first.Keys()[0])
	clitest.Want(t, "keys", len(both.Keys()), 2)
	run("encrypts from now on", "promote", file)
	list := run("(primary)", "list", file)
	if lines := strings.Split(strings.TrimSpace(list), "\n"); !strings.Contains(lines[len(lines)-1], "(primary)") {
		t.Errorf("the newest key is not the primary one: %s", list)
	}
	old := strings.Fields(strings.Split(list, "\n")[1])[0]
	run("", "remove", file, old)
	run("retrysafe: ", "remove", file, old)
}
