package memstore_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// What Purge drops no longer counts, and the answer is gone at once, while the clock stands still.
// Seen to fail with changed taken out of Purge, and with a Replay of a nanosecond.
func TestPurgeGivesMemoryBack(t *testing.T) {
	s, _ := open(memstore.Options{})
	complete(t, s, take(t, s, "1"), "")
	empty := bytesIn(t, s)
	lease := take(t, s, "2")
	complete(t, s, lease, "a long answer")
	key := params("2").Key
	step := retrysafe.StepResult{Name: retrysafe.AuditStepPrefix, Data: []byte("by ada")}
	if err := s.Purge(ctx, key.Digest(), lease.Fence, step); err != nil {
		t.Fatal(err)
	}
	if got, want := bytesIn(t, s), 2*empty+int64(len(step.Name)+len(step.Data)); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	if c, err := s.Claim(ctx, params("2")); err != nil || c.Verdict != retrysafe.Done || c.Record.ReplayLeft != 0 {
		t.Errorf("Claim: got %q, %v left, %v; want done, and nothing left", c.Verdict, c.Record.ReplayLeft, err)
	}
	if _, err := s.Check(); err != nil {
		t.Error(err)
	}
}
