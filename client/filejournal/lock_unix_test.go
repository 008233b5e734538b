//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filejournal

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A process that is being started while the journal closes has a copy of the lock's file until it runs its own program:
// the journal can be opened again nevertheless. Seen to fail with LOCK_UN taken out of Close.
func TestLockEndsWithClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := syscall.Dup(int(j.lock.(lock).Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
