package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// crowd is many callers of several clients who claim the same keys, complete them and ask for their answers, while a
// test moves slots or takes servers away. A call that fails is repeated with the same arguments, as the contract allows.
//
// It counts honestly: a run is an acknowledged claim that was Acquired, whatever became of it later.
type crowd struct {
	stores []*Store
	ended  sync.WaitGroup

	calls, repeated, replayed atomic.Int64

	mu       sync.Mutex
	news     sync.Cond // there are new keys, or new answers
	finished bool
	keys     []string
	answers  int               // of all callers together
	runs     map[string]int    // by key
	bodies   map[string]string // by key
	wrong    []string
	errs     map[string]int // errors that callers saw, by text
}

// callersEach is the number of callers of one client.
const callersEach = 8

// newCrowd starts callers, who wait for keys. They end with count.
func newCrowd(t testing.TB, stores []*Store) *crowd {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(stop)
	c := &crowd{stores: stores, runs: map[string]int{}, bodies: map[string]string{}, errs: map[string]int{}}
	c.news.L = &c.mu
	context.AfterFunc(ctx, c.finish)
	for _, s := range stores {
		for range callersEach {
			c.ended.Go(func() { c.call(ctx, s) })
		}
	}
	return c
}

// ask gives all callers some more keys.
func (c *crowd) ask(keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, keys...)
	c.news.Broadcast()
}

// await waits until all callers have the answers of all keys.
func (c *crowd) await() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.answers < len(c.keys)*len(c.stores)*callersEach && !c.finished {
		c.news.Wait()
	}
}

// progress waits until the callers have made n more calls, or have all answers.
func (c *crowd) progress(n int64) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for until := c.calls.Load() + n; c.calls.Load() < until; <-tick.C {
		c.mu.Lock()
		done := c.answers == len(c.keys)*len(c.stores)*callersEach || c.finished
		c.mu.Unlock()
		if done {
			return
		}
	}
}

// finish lets the callers end once they have all answers.
func (c *crowd) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = true
	c.news.Broadcast()
}

// call takes keys to their answers, in any order.
func (c *crowd) call(ctx context.Context, s *Store) {
	var left []string
	for seen := 0; ctx.Err() == nil; {
		c.mu.Lock()
		for len(left) == 0 && seen == len(c.keys) && !c.finished {
			c.news.Wait()
		}
		left, seen = append(left, c.keys[seen:]...), len(c.keys)
		c.mu.Unlock()
		if len(left) == 0 {
			return
		}
		if i := rand.IntN(len(left)); c.take(ctx, s, left[i]) {
			left = slices.Delete(left, i, i+1)
			c.mu.Lock()
			c.answers++
			c.news.Broadcast()
			c.mu.Unlock()
		}
	}
	c.say("a caller gave up with %d keys left", len(left))
}

// take claims one key, works and completes it if it gets it, and reports whether the key has its answer.
func (c *crowd) take(ctx context.Context, s *Store, id string) (answered bool) {
	p := params(id)
	p.Lease = time.Hour // longer than a call is repeated
	claim, ok := repeat(ctx, c, func() (retrysafe.Claim, error) { return s.Claim(ctx, p) })
	if !ok {
		return false
	}
	switch claim.Verdict {
	case retrysafe.Acquired:
		c.work(ctx, s, id, claim)
		return true
	case retrysafe.Done:
		c.replayed.Add(1)
		c.compare(id, string(claim.Record.Result.Body))
		return true
	case retrysafe.Abandoned:
		c.say("%s is abandoned", id)
		return true
	}
	return false
}

// work counts the run and completes it, now and then after a step and a longer lease.
func (c *crowd) work(ctx context.Context, s *Store, id string, claim retrysafe.Claim) {
	c.mu.Lock()
	c.runs[id]++
	c.mu.Unlock()
	body := fmt.Sprint(id, " by ", claim.Lease.Owner)
	if claim.Lease.Fence%2 == 0 {
		step := retrysafe.StepResult{Name: "charge", Data: []byte(body)}
		c.under(ctx, id, func() error { return s.Checkpoint(ctx, claim.Lease, step) })
		c.under(ctx, id, func() error { return s.Extend(ctx, claim.Lease, time.Hour) })
	}
	if c.under(ctx, id, func() error {
		return s.Complete(ctx, claim.Lease, retrysafe.Result{Body: []byte(body)}, retrysafe.Retention{})
	}) {
		c.compare(id, body)
	}
}

// under makes a call under a lease. It reports whether the call was acknowledged.
func (c *crowd) under(ctx context.Context, id string, do func() error) bool {
	lost := false
	_, ok := repeat(ctx, c, func() (struct{}, error) {
		err := do()
		if errors.Is(err, retrysafe.ErrLeaseLost) {
			lost, err = true, nil
		}
		return struct{}{}, err
	})
	if lost {
		c.say("the lease of %s is lost", id)
	}
	return ok && !lost
}

// repeat makes a call until it is answered. It reports false once ctx ends.
func repeat[T any](ctx context.Context, c *crowd, do func() (T, error)) (answer T, ok bool) {
	for ctx.Err() == nil {
		c.calls.Add(1)
		answer, err := do()
		if err == nil {
			return answer, true
		}
		if ctx.Err() == nil {
			c.repeated.Add(1)
			c.mu.Lock()
			c.errs[root(err)]++
			c.mu.Unlock()
		}
	}
	return answer, false
}

// root returns the text of the innermost error, without the key.
func root(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// compare keeps the first answer of a key, and expects every other to be the same.
func (c *crowd) compare(id, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, ok := c.bodies[id]; ok && first != body {
		c.wrong = append(c.wrong, fmt.Sprintf("%s has the answers %q and %q", id, first, body))
	}
	c.bodies[id] = body
}

func (c *crowd) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// tally is what became of the keys of a crowd.
type tally struct {
	acknowledged int // claims, each for one run
	doubled      int // runs beyond the first of a key
	lost         int // keys whose acknowledged answer is gone
}

// count waits for the callers, asks for every answer once more, and counts.
func (c *crowd) count(t testing.TB) (n tally) {
	t.Helper()
	c.finish()
	c.ended.Wait()
	for _, id := range c.keys {
		runs := c.runs[id]
		n.acknowledged += runs
		n.doubled += max(0, runs-1)
		claim, err := c.stores[0].Claim(context.Background(), params(id))
		if err != nil {
			t.Fatal(err)
		}
		if claim.Verdict != retrysafe.Done || string(claim.Record.Result.Body) != c.bodies[id] {
			n.lost++
		}
	}
	t.Logf("%d keys, %d calls, %d replays: acknowledged %d, lost %d, doubled %d; %d calls repeated after %v", len(c.keys),
		c.calls.Load(), c.replayed.Load(), n.acknowledged, n.lost, n.doubled, c.repeated.Load(), c.errs)
	return n
}
