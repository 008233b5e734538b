package testkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// Callers claim keys of their own and complete them until they are stopped, also while the server is away: a call that
// fails then fails the test.
type Callers struct {
	// Claimed and Completed are the leases of the calls that the store has acknowledged. They are read after Stop.
	Claimed, Completed []retrysafe.Lease

	t      testing.TB
	store  retrysafe.Store
	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup
	mu     sync.Mutex // guards Claimed and Completed
}

// StartCallers starts n callers, who end with the test at the latest.
func StartCallers(t testing.TB, s retrysafe.Store, n int) *Callers {
	c := &Callers{t: t, store: s}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for i := range n {
		c.all.Go(func() {
			for n := 0; c.ctx.Err() == nil; n++ {
				if err := c.once(fmt.Sprint(i, " ", n)); err != nil && c.ctx.Err() == nil {
					t.Errorf("a call failed: %v", err)
				}
			}
		})
	}
	t.Cleanup(c.Stop)
	return c
}

func (c *Callers) once(id string) error {
	got, err := c.store.Claim(c.ctx, Params(id))
	if err != nil {
		return err
	}
	if got.Verdict != retrysafe.Acquired {
		return fmt.Errorf("a new key is %s", got.Verdict)
	}
	c.note(&c.Claimed, got.Lease)
	err = c.store.Complete(c.ctx, got.Lease, retrysafe.Result{Body: []byte(id)}, retrysafe.Retention{})
	if errors.Is(err, retrysafe.ErrLeaseLost) {
		return nil // the claim is lost: Lost counts it
	}
	if err == nil {
		c.note(&c.Completed, got.Lease)
	}
	return err
}

func (c *Callers) note(list *[]retrysafe.Lease, l retrysafe.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, l)
}

// UntilDone waits until so many more keys are done.
func (c *Callers) UntilDone(more int) {
	c.t.Helper()
	done := func() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.Completed) }
	before := done()
	Eventually(c.t, fmt.Sprintf("%d more keys are done", more), func() bool { return done() >= before+more })
}

// Stop ends the callers.
func (c *Callers) Stop() {
	c.cancel()
	c.all.Wait()
}

// Lost counts what the store has forgotten of what it has acknowledged.
func (c *Callers) Lost() (claims, results int) {
	c.t.Helper()
	again := func(l retrysafe.Lease) retrysafe.Claim {
		c.t.Helper()
		got, err := c.store.Claim(context.Background(), Params(l.Key.ID))
		if err != nil {
			c.t.Fatal(err)
		}
		return got
	}
	for _, l := range c.Claimed {
		if again(l).Record.FirstFence != l.Fence {
			claims++
		}
	}
	for _, l := range c.Completed {
		if got := again(l); got.Verdict != retrysafe.Done || string(got.Record.Result.Body) != l.Key.ID {
			results++
		}
	}
	return claims, results
}
