package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
)

// crowd is how many callers a rule lets loose at once.
const crowd = 32

// together calls do once in each of n goroutines, all released at the same moment, and waits for them.
func together(n int, do func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	wg.Wait()
}

// oneWinner lets a crowd claim one key, expects a single Acquired, and the verdict for the rest.
func (k *kit) oneWinner(rest retrysafe.Verdict, id string, asks ...asking) retrysafe.Lease {
	k.Helper()
	claims := make([]retrysafe.Claim, crowd)
	together(crowd, func(i int) {
		c, err := k.store.Claim(k.ctx, params(id, asks...))
		if err != nil {
			k.Errorf("Claim: %v", err)
		}
		claims[i] = c
	})
	var won []retrysafe.Lease
	for _, c := range claims {
		if c.Verdict == retrysafe.Acquired {
			won = append(won, c.Lease)
		} else {
			equal(k, "verdict", c.Verdict, rest)
		}
	}
	if len(won) != 1 {
		k.Fatalf("%d of %d claims won, want 1", len(won), crowd)
	}
	return won[0]
}

var concurrencyRules = []rule{
	{"one-winner", "of many concurrent claims one wins, and the others are told that it is in flight", func(k *kit) {
		for i := range 10 {
			k.complete(k.oneWinner(retrysafe.InFlight, fmt.Sprint(i)), "answer", keepLonger)
		}
	}},
	{"one-takes-over", "of many concurrent take-overs one wins", func(k *kit) {
		for i := range 5 {
			zombie := k.abandon(fmt.Sprint(i))
			l := k.oneWinner(retrysafe.InFlight, fmt.Sprint(i), takingOver)
			k.grows(zombie.Fence, l.Fence)
			k.allLost(zombie)
		}
	}},
	{"one-resumes", "of many concurrent claims of a released key one wins", func(k *kit) {
		for i := range 5 {
			l := k.take(fmt.Sprint(i))
			k.checkpoint(l, "a", "1")
			k.release(l)
			k.complete(k.oneWinner(retrysafe.InFlight, fmt.Sprint(i)), "answer", keepLonger)
		}
	}},
	{"one-takes-the-expired", "of many concurrent claims of an expired key one wins", func(k *kit) {
		for i := range 5 {
			old := k.finish(fmt.Sprint(i), "answer", keepAll)
			k.age(keyTime + slack)
			k.grows(old.Fence, k.oneWinner(retrysafe.InFlight, fmt.Sprint(i)).Fence)
		}
	}},
	{"one-result", "of many concurrent completions of one lease one stays, and all return nil", func(k *kit) {
		l := k.take("k")
		together(crowd, func(i int) {
			if err := k.store.Complete(k.ctx, l, result(fmt.Sprint(i)), keepLonger); err != nil {
				k.Errorf("Complete: %v", err)
			}
		})
		first := k.find(retrysafe.Done, "k").Result
		equal(k, "meta", string(first.Meta), "meta of "+string(first.Body))
		k.replays("k", string(first.Body))
	}},
	{"same-owner-together", "concurrent repetitions of one claim all get the same lease", func(k *kit) {
		o := retrysafe.NewOwner()
		leases := make([]retrysafe.Lease, crowd)
		together(crowd, func(i int) {
			c, err := k.store.Claim(k.ctx, params("k", by(o)))
			if err != nil || c.Verdict != retrysafe.Acquired {
				k.Errorf("Claim: got %v, %v", c.Verdict, err)
			}
			leases[i] = c.Lease
		})
		for _, l := range leases {
			equal(k, "lease", l, leases[0])
		}
		equal(k, "attempt", k.find(retrysafe.InFlight, "k").Attempt, 1)
	}},
	{"all-steps", "concurrent checkpoints are all saved, each once", func(k *kit) {
		l := k.take("k")
		together(crowd, func(i int) {
			if err := k.store.Checkpoint(k.ctx, l, step(fmt.Sprint(i/2), "x")); err != nil {
				k.Errorf("Checkpoint: %v", err)
			}
		})
		names := map[string]bool{}
		for _, s := range k.acquire("k", by(l.Owner)).Record.Steps {
			equal(k, "saved twice", names[s.Name], false)
			names[s.Name] = true
		}
		equal(k, "steps", len(names), crowd/2)
	}},
	{"late-or-taken-over", "a late completion and a take-over never both succeed", func(k *kit) {
		for i := range 20 {
			id := fmt.Sprint(i)
			zombie := k.take(id)
			k.extend(zombie, 0)
			var err, claimErr error
			var c retrysafe.Claim
			together(2, func(i int) {
				if i == 0 {
					err = k.store.Complete(k.ctx, zombie, result("late"), keepLonger)
				} else {
					c, claimErr = k.store.Claim(k.ctx, params(id, takingOver))
				}
			})
			k.must("Claim", claimErr)
			if err == nil {
				equal(k, "verdict", c.Verdict, retrysafe.Done)
				k.replays(id, "late")
			} else {
				k.lost("Complete", err)
				equal(k, "verdict", c.Verdict, retrysafe.Acquired)
				k.complete(c.Lease, "second", keepLonger)
			}
		}
	}},
	{"many-keys", "many keys at once are claimed, completed and replayed, each with its own answer", func(k *kit) {
		together(crowd, func(i int) {
			for j := range 5 {
				id := fmt.Sprint(i, " ", j)
				c, err := k.store.Claim(k.ctx, params(id))
				if err != nil || c.Verdict != retrysafe.Acquired {
					k.Errorf("Claim: got %v, %v", c.Verdict, err)
					return
				}
				if err := k.store.Complete(k.ctx, c.Lease, result(id), keepLonger); err != nil {
					k.Errorf("Complete: %v", err)
				}
				c, err = k.store.Claim(k.ctx, params(id))
				if err != nil || string(c.Record.Result.Body) != id {
					k.Errorf("Claim: got %q, %v; want %q", c.Record.Result.Body, err, id)
				}
			}
		})
	}},
	{"storm", "callers who claim, checkpoint, release and complete a few keys never hold one together", storm},
}

// storm lets a crowd fight for a few keys whose leases never lapse. Between Acquired and the call that ends it, a
// caller must be alone with its key, and see no smaller fence than those before it.
func storm(k *kit) {
	const keys, rounds = 4, 15
	var inside, fence, completed [keys]atomic.Int64
	together(crowd, func(i int) {
		for round := range rounds {
			n := (i + round) % keys
			c, err := k.store.Claim(k.ctx, params(fmt.Sprint(n)))
			if err != nil {
				k.Errorf("Claim: %v", err)
				return
			}
			if c.Verdict != retrysafe.Acquired {
				continue
			}
			if inside[n].Add(1) != 1 {
				k.Errorf("two attempts hold key %d", n)
			}
			if before := fence[n].Swap(c.Lease.Fence); before >= c.Lease.Fence {
				k.Errorf("fence: got %d after %d, want a larger one", c.Lease.Fence, before)
			}
			if len(c.Record.Steps) != c.Record.Attempt-1 {
				k.Errorf("attempt %d finds %d steps", c.Record.Attempt, len(c.Record.Steps))
			}
			err = k.store.Checkpoint(k.ctx, c.Lease, step(fmt.Sprint(c.Record.Attempt), "x"))
			inside[n].Add(-1)
			if round == rounds-1 {
				completed[n].Add(1)
				err = errors.Join(err, k.store.Complete(k.ctx, c.Lease, result("answer"), keepLonger))
			} else {
				err = errors.Join(err, k.store.Release(k.ctx, c.Lease))
			}
			if err != nil {
				k.Errorf("the holder of key %d: %v", n, err)
			}
		}
	})
	for n := range completed {
		c := k.claim(params(fmt.Sprint(n)))
		equal(k, "done", c.Verdict == retrysafe.Done, completed[n].Load() == 1)
	}
}
