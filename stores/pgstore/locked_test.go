package pgstore

import (
	"context"
	"fmt"
	"testing"
	"time"

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
		t.Errorf("claim of the locked key = %v, %v, while it is locked", o.claim.Verdict, o.err)
	default:
	}
	unlock()
	if o := <-outcomes[1]; o.err != nil || o.claim.Verdict != retrysafe.InFlight {
		t.Errorf("claim of the locked key = %v, %v; want it in flight", o.claim.Verdict, o.err)
	}
}

// A worker that is held up is made up for, and closed again afterwards.
// Seen to fail, by the timeout of 30 s, with the timer taken out of Workers.runWatched.
func TestLaneThatIsHeldUpIsMadeUpFor(t *testing.T) {
	t.Parallel()
	s := openAt(t, shared.Get(t).Database(t), Options{Connections: 1})
	unlock := lockRow(t, s, acquire(t, s, "locked").Key)
	held := make(chan outcome, 1)
	go func() {
		c, err := s.Claim(context.Background(), params("locked"))
		held <- outcome{c, err}
	}()
	eventually(t, "the claim waits", func() bool { return lockWaits(t, s) > 0 })
	for i := range 20 {
		c, err := s.Claim(t.Context(), params(fmt.Sprint("other ", i)))
		if err != nil || c.Verdict != retrysafe.Acquired {
			t.Fatalf("claim %d = %v, %v", i, c.Verdict, err)
		}
	}
	unlock()
	if o := <-held; o.err != nil || o.claim.Verdict != retrysafe.InFlight {
		t.Errorf("claim of the locked key = %v, %v; want it in flight", o.claim.Verdict, o.err)
	}
	eventually(t, "one worker is left", func() bool {
		running, _, most, _ := s.workers.State()
		return most == 1 && running <= 1
	})
}

// A service that stands still between the completion of its key and COMMIT holds the record. A take-over says that the
// key is in flight, and does not wait for it. Seen to fail, by the deadline, with takesOver returning false and with leaveHeld not called.
func TestTakeOverOfAHeldRecordIsInFlight(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	p := params("held")
	held := acquire(t, s, "held")
	if err := s.Extend(t.Context(), held, 0); err != nil {
		t.Fatal(err)
	}
	unlock := lockRow(t, s, held.Key)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p.TakeOver = true
	c, err := s.Claim(ctx, p)
	if err != nil || c.Verdict != retrysafe.InFlight || c.Record.LeaseLeft <= 0 {
		t.Errorf("claim = %v with %v left, %v; want it in flight", c.Verdict, c.Record.LeaseLeft, err)
	}
	unlock()
	if c, err = s.Claim(t.Context(), p); err != nil || c.Verdict != retrysafe.Acquired || c.Record.Attempt != 2 {
		t.Errorf("claim after that = %v, %v; want it taken over", c.Verdict, err)
	}
}
