package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// An operation on a locked row waits; the others of its batch do not.
// Seen to fail, by the timeout of 30 s, with lock_timeout taken out of planner_settings.sql.
func TestLockedRowHoldsUpNobodyInItsBatch(t *testing.T) {
	t.Parallel()
	s := openOneWorker(t)
	lease := acquire(t, s, "locked")
	unlock := lockRow(t, s, lease.Key)
	outcomes, release := behind(t, s, claiming(s, params("a")), claiming(s, params("locked")),
		claiming(s, params("b")), claiming(s, params("c")))
	extended := make(chan error, 1)
	go func() { extended <- s.Extend(context.Background(), lease, time.Minute) }()
	eventually(t, "the last call waits for the worker", func() bool { return queued(s) == len(outcomes)+1 })
	release()
	for _, i := range []int{0, 2, 3} {
		if o := <-outcomes[i]; o.err != nil || o.claim.Verdict != retrysafe.Acquired {
			t.Errorf("claim %d = %v, %v; want it acquired", i, o.claim.Verdict, o.err)
		}
	}
	select {
	case err := <-extended: // the claim may have its answer: that it is in flight
		t.Fatalf("Extend = %v, while the row is locked", err)
	default:
	}
	unlock()
	if err := <-extended; err != nil {
		t.Errorf("Extend = %v", err)
	}
	if o := <-outcomes[1]; o.err != nil || o.claim.Verdict != retrysafe.InFlight {
		t.Errorf("claim of the locked key = %v, %v; want it in flight", o.claim.Verdict, o.err)
	}
}
