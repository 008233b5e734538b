//go:build unix

package sqlitestore

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A process that is being started while the store closes has a copy of the lock's file until it runs its own program:
// the file can be opened again nevertheless. Seen to fail with unlock taken out of release.
func TestLockEndsWithClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := syscall.Dup(int(s.lock.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path, nil)
}
