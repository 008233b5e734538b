package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/bench/disk"
)

// Seen to fail with "resumed" lines counted too.
func TestCountSyncsCountsEachOnce(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	const text = `17 fdatasync(3)                      = 0 (DELAYED)
18 fsync(4 <unfinished ...>
17 fdatasync(3 <unfinished ...>
18 <... fsync resumed>)              = 0 (DELAYED)
17 <... fdatasync resumed>)          = 0
17 +++ exited with 0 +++
`
	if err := os.WriteFile(trace, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := disk.CountSyncs(trace); err != nil || got != 3 {
		t.Errorf("got %d, %v; want 3", got, err)
	}
}

// Seen to fail with the -o of the trace left out of Command.
func TestATracedProcessIsCounted(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	for _, d := range []disk.Disk{disk.AsIs(), disk.Slow()} {
		cmd := d.Command(t.Context(), trace, "sync", "-d", os.Args[0])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		if got, err := disk.CountSyncs(trace); err != nil || got != 1 {
			t.Errorf("disk %s: got %d, %v; want 1", d.Name, got, err)
		}
	}
}

func TestProbeMeasuresEachRound(t *testing.T) {
	f, err := disk.Probe(t.TempDir(), 5)
	if err != nil || len(f.Samples) != 5 {
		t.Errorf("got %d samples, %v; want 5", len(f.Samples), err)
	}
}
