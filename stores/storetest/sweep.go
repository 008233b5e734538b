package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

func (k *kit) sweep(limit int) int {
	k.Helper()
	n, err := k.store.(retrysafe.Sweeper).Sweep(k.ctx, limit)
	k.must("Sweep", err)
	if n < 0 || n > limit {
		k.Errorf("Sweep(%d): got %d", limit, n)
	}
	return n
}

// sweepAll sweeps until nothing more is due.
func (k *kit) sweepAll() {
	k.Helper()
	for range 1000 {
		if k.sweep(10) < 10 {
			return
		}
	}
	k.Fatal("Sweep: there is always something due")
}

var sweeperRules = []rule{
	{"sweep-spares-the-living", "sweeping deletes nothing that takes part in claims", func(k *kit) {
		short := keeping(retrysafe.Retention{Replay: time.Minute, Key: time.Minute, Audit: time.Minute})
		k.take("running", lasting(10*time.Hour), short)
		k.age(10*time.Hour - time.Hour)
		k.take("abandoned")
		released := k.take("released")
		k.checkpoint(released, "a", "1")
		k.release(released)
		k.finish("done", "answer", keepAll)
		k.age(leaseTime + slack)
		k.sweepAll()
		k.find(retrysafe.InFlight, "running", takingOver)
		k.find(retrysafe.Abandoned, "abandoned")
		k.steps(k.find(retrysafe.InFlight, "released", anotherRequest).Steps, "a=1")
		k.replays("done", "answer")
	}},
	{"sweep-is-not-seen", "sweeping what has expired changes no answer", func(k *kit) {
		leases := expired(k)
		k.sweepAll()
		for kind, old := range leases {
			k.release(old)
			k.lost("Complete", k.store.Complete(k.ctx, old, result("zombie"), keepLonger))
			c := k.acquire(kind, anotherRequest)
			k.grows(old.Fence, c.Lease.Fence)
			equal(k, "attempt", c.Record.Attempt, 1)
			k.steps(c.Record.Steps)
		}
	}},
	{"sweep-fence", "the fence grows for a key whose record has been swept away", func(k *kit) {
		last := k.finish("k", "answer", keepAll)
		for range 10 {
			k.age(keyTime + auditTime)
			k.sweepAll()
			next := k.finish("k", "answer", keepAll)
			k.grows(last.Fence, next.Fence)
			last = next
		}
	}},
	{"sweep-drops-bodies", "once Audit has passed the body may go, while the key stays taken", func(k *kit) {
		k.finish("k", "answer", retrysafe.Retention{Replay: time.Hour, Key: 48 * time.Hour, Audit: 2 * time.Hour})
		k.age(2*time.Hour + slack)
		k.sweepAll()
		r := k.find(retrysafe.Done, "k", anotherRequest)
		equal(k, "state", r.State, retrysafe.Succeeded)
		equal(k, "fingerprint", r.Fingerprint, "raw1:one")
		equal(k, "same result", sameResult(r.Result, retrysafe.Result{Code: 201}), true)
		k.age(46 * time.Hour)
		k.sweepAll()
		equal(k, "attempt", k.acquire("k").Record.Attempt, 1)
	}},
	{"sweep-keeps-bodies", "until Replay and Audit have passed the body stays", func(k *kit) {
		k.finish("k", "answer", keepAll)
		k.age(replayTime - slack)
		k.sweepAll()
		k.replays("k", "answer")
	}},
	{
		"sweep-is-bounded",
		"a pass handles no more than limit records; less than limit means that nothing more is due", func(k *kit) {
			const all = 25
			for i := range all {
				k.finish(fmt.Sprint(i), "answer", keepAll)
			}
			equal(k, "swept before anything is due", k.sweep(10), 0)
			k.age(auditTime + slack)
			equal(k, "swept with limit 0", k.sweep(0), 0)
			total := 0
			for range all {
				n := k.sweep(10)
				total += n
				if n < 10 {
					break
				}
			}
			if total > all {
				k.Errorf("Sweep: got %d in all, want no more than there were, %d", total, all)
			}
			equal(k, "swept after the end", k.sweep(10), 0)
			if i, ok := k.store.(retrysafe.Inspector); ok {
				stats, err := i.Stats(k.ctx)
				k.must("Stats", err)
				equal(k, "left over", stats.Succeeded, 0)
			}
		},
	},
	{"sweep-beside-claims", "sweeping beside claims of expired keys leaves one winner, and no error", func(k *kit) {
		for i := range 5 {
			old := k.finish(fmt.Sprint(i), "answer", keepAll)
			k.age(auditTime + slack)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 20 {
					if _, err := k.store.(retrysafe.Sweeper).Sweep(k.ctx, 10); err != nil {
						k.Errorf("Sweep: %v", err)
					}
				}
			}()
			l := k.oneWinner(retrysafe.InFlight, fmt.Sprint(i))
			<-done
			k.grows(old.Fence, l.Fence)
			k.find(retrysafe.InFlight, fmt.Sprint(i))
		}
	}},
	{
		"sweep-context",
		"a sweep whose context has ended fails with the context's error and changes nothing", func(k *kit) {
			k.finish("k", "answer", keepAll)
			k.age(auditTime + slack)
			ended, cancel := context.WithCancel(k.ctx)
			cancel()
			_, err := k.store.(retrysafe.Sweeper).Sweep(ended, 10)
			k.refused("Sweep", err)
		},
	},
}
