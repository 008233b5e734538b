package sqlitestore

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The child may write no file beyond a size, as on a full disk: the kernel refuses in the middle of a write. Seen to
// fail with errors of COMMIT ignored, and with the Guard's check for unsaved ends taken out of its claims: the outcome
// of work that ended on the full disk was unknown.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	cmd, out := startChild(t, "limited", path)
	var line string
	for {
		next, err := out.ReadString('\n')
		if err != nil {
			break
		}
		line = next
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(line) != "recovered" {
		t.Errorf("the child said %q", line)
	}
}

// limitFiles has the kernel refuse writes beyond size.
func limitFiles(size uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = size
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}
