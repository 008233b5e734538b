package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// RunFull checks that a store at its limit goes on serving what it has accepted: otherwise an attempt that has done its
// work could not save it, and its outcome would be unknown. For stores that return ErrStoreFull.
//
// Open returns a store for each rule, and fill takes its room away, so that new keys are refused. If fill is nil, keys
// are claimed until one is refused. Harness.Age and the rest are not used.
func RunFull(t *testing.T, h Harness, fill func(t *testing.T, s retrysafe.Store)) {
	t.Helper()
	if fill == nil {
		fill = claimUntilFull
	}
	for _, r := range fullRules {
		t.Run(r.name, func(t *testing.T) {
			k := newKit(t, h)
			full := func() { fill(t, k.store); k.full("new") }
			defer func() {
				if t.Failed() {
					t.Logf("the rule: %s", r.sentence)
				}
			}()
			r.check(k, full)
		})
	}
}

// claimUntilFull claims keys until one is refused.
func claimUntilFull(t *testing.T, s retrysafe.Store) {
	t.Helper()
	for i := range 1_000_000 {
		_, err := s.Claim(t.Context(), params(fmt.Sprint("filler ", i)))
		if errors.Is(err, retrysafe.ErrStoreFull) {
			return
		}
		if err != nil {
			t.Fatalf("Claim: %v, want ErrStoreFull", err)
		}
	}
	t.Fatal("a million keys are not refused")
}

// fullRule is one sentence about a full store, and the code that checks it. full takes the room away.
type fullRule struct {
	name, sentence string
	check          func(k *kit, full func())
}

var fullRules = []fullRule{
	{
		"full store answers keys that are there",
		"A store at its limit refuses new keys with ErrStoreFull, and answers for those that it has.",
		func(k *kit, full func()) {
			done := k.finish("done", "answer", keepLonger)
			k.take("running")
			k.must("Extend", k.store.Extend(k.ctx, k.take("abandoned"), 0))
			full()
			k.replays("done", "answer")
			k.find(retrysafe.InFlight, "running")
			k.find(retrysafe.Abandoned, "abandoned")
			if _, ok := k.store.(retrysafe.Watcher); ok {
				k.watch("running")
			}
			if p, ok := k.store.(retrysafe.Purger); ok {
				k.must("Purge", p.Purge(k.ctx, done.Key.Digest(), done.Fence, step(retrysafe.AuditStepPrefix+"1", "")))
				k.replays("done", "")
			}
			if r, ok := k.store.(retrysafe.Reopener); ok {
				k.must("Reopen", r.Reopen(k.ctx, done.Key.Digest(), done.Fence, step(retrysafe.AuditStepPrefix+"2", "")))
				k.complete(k.take("done"), "second answer", keepLonger)
				k.replays("done", "second answer")
			}
			k.full("another")
		},
	},
	{
		"full store completes what it has accepted",
		"An attempt whose claim was accepted can claim again, extend its lease, save steps and complete in a full store.",
		func(k *kit, full func()) {
			p := params("running")
			lost := k.claim(p) // its answer, while the room ran out
			full()
			again := k.claim(p)
			equal(k, "verdict", again.Verdict, retrysafe.Acquired)
			equal(k, "fence", again.Lease.Fence, lost.Lease.Fence)
			for range 10 {
				k.extend(again.Lease, leaseTime)
			}
			k.checkpoint(again.Lease, "charge", "1")
			k.checkpoint(again.Lease, "ship", "2")
			k.complete(again.Lease, "answer", keepLonger)
			k.complete(again.Lease, "second answer", keepLonger)
			k.replays("running", "answer")
		},
	},
	{
		"full store releases",
		"A key can be released in a full store, and one with saved steps is resumed by the same request.",
		func(k *kit, full func()) {
			plain, stepped := k.take("plain"), k.take("stepped")
			k.checkpoint(stepped, "charge", "1")
			full()
			k.release(plain)
			k.release(stepped)
			k.release(stepped)
			c := k.acquire("stepped")
			k.steps(c.Record.Steps, "charge=1")
			k.complete(c.Lease, "answer", keepLonger)
			k.replays("stepped", "answer")
		},
	},
	{
		"full store is taken over",
		"An abandoned key can be taken over in a full store, and completed.",
		func(k *kit, full func()) {
			k.must("Extend", k.store.Extend(k.ctx, k.take("abandoned"), 0))
			full()
			c := k.acquire("abandoned", takingOver)
			equal(k, "attempt", c.Record.Attempt, 2)
			k.complete(c.Lease, "answer", keepLonger)
			k.replays("abandoned", "answer")
		},
	},
}

// full expects a claim of a new key to be refused.
func (k *kit) full(id string) {
	k.Helper()
	if c, err := k.store.Claim(k.ctx, params(id)); !errors.Is(err, retrysafe.ErrStoreFull) {
		k.Errorf("Claim of a new key: got %v, %v, want ErrStoreFull", c.Verdict, err)
	}
}
