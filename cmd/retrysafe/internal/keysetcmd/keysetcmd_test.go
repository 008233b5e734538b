package keysetcmd_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// A rotation by hand: each file decrypts what the one before has encrypted, the one before decrypts what a rotated file
// encrypts, which processes without the new key depend on, and only its owner may read it. A reader of the file gets the
// old one or the new one, as a whole.
//
// Seen to fail with rotate promoting the new key, promote removing the others or taking the oldest, remove leaving the
// key, and change writing into the file that is there.
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
	load := func() *cryptstore.Keyset {
		t.Helper()
		keyset, err := store.LoadKeyset(file)
		clitest.Must(t, err)
		return keyset
	}
	run("", "new", file)
	first := load()
	reader, err := os.Open(file) // that has not read yet
	clitest.Must(t, err)
	defer reader.Close()
	text, err := os.ReadFile(file)
	clitest.Must(t, err)
	run("retrysafe: "+file+" exists", "new", file)
	run("keyset promote "+file, "rotate", file)
	both := load()
	wantDecrypts(t, both, first, true)
	wantDecrypts(t, first, both, true)
	read, err := io.ReadAll(reader)
	clitest.Must(t, err)
	clitest.Want(t, "what the reader gets", string(read), string(text))
	clitest.Want(t, "the primary key", both.Keys()[0], first.Keys()[0])
	clitest.Want(t, "keys", len(both.Keys()), 2)
	run("encrypts from now on", "promote", file)
	promoted := load()
	wantDecrypts(t, promoted, first, true)
	wantDecrypts(t, both, promoted, true)
	wantDecrypts(t, first, promoted, false)
	list := run("(primary)", "list", file)
	if lines := strings.Split(strings.TrimSpace(list), "\n"); !strings.Contains(lines[len(lines)-1], "(primary)") {
		t.Errorf("the newest key is not the primary one: %s", list)
	}
	rows := strings.Split(list, "\n")
	old, primary := strings.Fields(rows[1])[0], strings.Fields(rows[2])[0]
	run("retrysafe: ", "remove", file, primary)
	run("", "remove", file, old)
	run("retrysafe: ", "remove", file, old)
	wantDecrypts(t, load(), first, false)
	wantDecrypts(t, load(), promoted, true)
}

// wantDecrypts expects whether a keyset decrypts what another one encrypts.
func wantDecrypts(t *testing.T, k, by *cryptstore.Keyset, want bool) {
	t.Helper()
	encrypted, err := cryptstore.NewKeyring(by).Encrypt([]byte("answer"), []byte("place"))
	clitest.Must(t, err)
	got, err := cryptstore.NewKeyring(k).Decrypt(encrypted, []byte("place"))
	if (err == nil) != want || want && string(got) != "answer" {
		t.Errorf("%v decrypts what %v has encrypted: %q, %v", k, by, got, err)
	}
}
