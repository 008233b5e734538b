//go:build unix

package sqlitestore

import (
	"os"
	"testing"
)

// What holds answers is readable by its owner alone. Seen to fail with createPrivate taken out of Open.
func TestFilesArePrivate(t *testing.T) {
	s := openTest(t)
	if err := completeOne(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{s.path, s.path + "-wal", s.path + "-shm", s.path + ".lock"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s: got permissions %o, want 600", name, got)
		}
	}
}
