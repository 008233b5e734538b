package pgstore

import (
	"testing"

	"github.com/retrysafe/retrysafe"
)

// An operation on a locked row waits; the others of its batch do not.
// Seen to fail, by the timeout of 30 s, with lock_timeout taken out of planner_settings.sql.
func TestLockedRowHoldsUpNobodyInItsBatch(t *testing.T) {
	t.Parallel()
	s := openOneWorker(t)
	unlock := lockRow(t, s, acquire(t, s, "locked").Key)
	outcomes, release := behind(t, s, claiming(s, params("a")), claiming(s, params("locked")),
		claiming(s, params("b")), claiming(s, params("c")))
	release()
	for _, i := range []int{0, 2, 3} {
		if o := <-outcomes[i]; o.err != nil || o.claim.Verdict != retrysafe.Acquired {
			t.Errorf("claim %d = %v, %v; want it acquired", i, o.claim.Verdict, o.err)
		}
	}
	select {
	case o := <-outcomes[1]:
		t.Fatalf("claim of the locked key = %v, %v, while it is locked", o.claim.Verdict, o.err)
	default:
	}
	unlock()
	if o := <-outcomes[1]; o.err != nil || o.claim.Verdict != retrysafe.InFlight {
		t.Errorf("claim of the locked key = %v, %v; want it in flight", o.claim.Verdict, o.err)
	}
}
