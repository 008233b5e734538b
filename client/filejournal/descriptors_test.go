//go:build unix

package filejournal_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A compaction that cannot make its new name durable, because the process has no descriptor left for the folder, leaves
// the old file: what is begun after it would otherwise be in a file that a power failure may take back.
//
// Seen to fail with the folder opened after Rename: the journal went on in the new file.
func TestACompactionWithoutDescriptors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := must(openEager(path))(t)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Begin(t.Context(), journalled(1)); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	var open []*os.File
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	for len(open) < 1000 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		open = append(open, f)
	}
	open[len(open)-1].Close() // one is left, for the new file
	open = open[:len(open)-1]
	if err := j.End(t.Context(), journalled(1).ID); err == nil {
		t.Error("the compaction did not fail")
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced: %v", err)
	}
	if _, err := j.Begin(t.Context(), journalled(2)); err != nil {
		t.Errorf("the journal does not go on: %v", err)
	}
}
