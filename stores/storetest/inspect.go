package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

func (k *kit) inspector() retrysafe.Inspector { return k.store.(retrysafe.Inspector) }

// inspect expects this many records of the key.
func (k *kit) inspect(id string, want int) []retrysafe.Record {
	k.Helper()
	found, err := k.inspector().Inspect(k.ctx, params(id).Key.Digest())
	k.must("Inspect", err)
	if len(found) != want {
		k.Fatalf("Inspect: got %d records, want %d", len(found), want)
	}
	return found
}

// list expects records with these IDs, in this order.
func (k *kit) list(p retrysafe.ListParams, want ...string) []retrysafe.Record {
	k.Helper()
	found, err := k.inspector().List(k.ctx, p)
	k.must("List", err)
	var ids []string
	for _, r := range found {
		ids = append(ids, r.Key.ID)
	}
	equal(k, "IDs", fmt.Sprint(ids), fmt.Sprint(want))
	return found
}

// page expects this many records, and those that share the last one's FirstFence.
func (k *kit) page(p retrysafe.ListParams, want int) []retrysafe.Record {
	k.Helper()
	found, err := k.inspector().List(k.ctx, p)
	k.must("List", err)
	if len(found) < want {
		k.Fatalf("List with limit %d: got %d records, want %d", p.Limit, len(found), want)
	}
	for _, r := range found[want:] {
		if want == 0 || r.FirstFence != found[want-1].FirstFence {
			k.Errorf("List with limit %d: got %d records, want %d", p.Limit, len(found), want)
			break
		}
	}
	return found
}

// sweepIfAble sweeps stores whose records do not vanish by themselves.
func (k *kit) sweepIfAble() {
	k.Helper()
	if _, ok := k.store.(retrysafe.Sweeper); ok {
		k.sweepAll()
	}
}

// keepForSupport is a short time for the key and a long one for people.
var keepForSupport = retrysafe.Retention{Replay: time.Hour, Key: time.Hour, Audit: 48 * time.Hour}

var inspectorRules = []rule{
	{
		"inspect-nothing",
		"of a key that was never claimed, and of one that was released without steps, nothing is kept", func(k *kit) {
			k.inspect("k", 0)
			k.release(k.take("k"))
			k.inspect("k", 0)
			k.list(retrysafe.ListParams{})
		},
	},
	{"inspect-all-there-is", "Inspect shows the record with its steps and its result", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "a", "1")
		want := retrysafe.Record{
			Key: l.Key, Fingerprint: "raw1:one", State: retrysafe.Pending, Fence: l.Fence, Attempt: 1,
			Steps: []retrysafe.StepResult{step("a", "1")}, LeaseLeft: leaseTime,
		}
		k.record(k.inspect("k", 1)[0], want)
		k.complete(l, "answer", keepAll)
		k.age(replayTime + slack)
		want.State, want.Result, want.LeaseLeft = retrysafe.Succeeded, result("answer"), 0
		want.Age, want.EndedAge = replayTime+slack, replayTime+slack
		want.KeyLeft, want.AuditLeft = keyTime-replayTime-slack, auditTime-replayTime-slack
		k.record(k.inspect("k", 1)[0], want)
	}},
	{"inspect-plays-no-part", "looking changes nothing", func(k *kit) {
		l := k.abandon("k")
		k.inspect("k", 1)
		k.list(retrysafe.ListParams{}, "k")
		equal(k, "fence", k.find(retrysafe.Abandoned, "k").Fence, l.Fence)
	}},
	{
		"inspect-until-audit",
		"an ended record is readable with its body until Audit, though its key is free", func(k *kit) {
			l := k.take("k", lasting(12*time.Hour))
			k.age(10 * time.Hour)
			k.complete(l, "answer", keepForSupport)
			k.age(48*time.Hour - slack)
			k.sweepIfAble()
			r := k.inspect("k", 1)[0]
			equal(k, "body", string(r.Result.Body), "answer")
			equal(k, "KeyLeft", r.KeyLeft, 0)
			k.near("AuditLeft", r.AuditLeft, slack)
			k.list(retrysafe.ListParams{}, "k")
			k.age(past)
			k.inspect("k", 0)
			k.list(retrysafe.ListParams{})
		},
	},
	{
		"inspect-generations",
		"an ended record stays readable after its key was claimed anew; the newest record comes first", func(k *kit) {
			for _, body := range []string{"first", "second"} {
				k.finish("k", body, keepForSupport)
				k.age(2 * time.Hour)
			}
			third := k.take("k")
			k.sweepIfAble()
			found := k.inspect("k", 3)
			equal(k, "fence", found[0].Fence, third.Fence)
			equal(k, "body", string(found[1].Result.Body), "second")
			equal(k, "body", string(found[2].Result.Body), "first")
			k.age(45 * time.Hour)
			k.sweepIfAble()
			equal(k, "body", string(k.inspect("k", 1)[0].Result.Body), "second")
			k.age(2 * time.Hour)
			k.sweepIfAble()
			k.inspect("k", 0)
		},
	},
	{"inspect-generations-released", "a release takes away its own record, and no older one", func(k *kit) {
		k.finish("k", "answer", keepForSupport)
		k.age(2 * time.Hour)
		k.release(k.take("k"))
		equal(k, "body", string(k.inspect("k", 1)[0].Result.Body), "answer")
		equal(k, "attempt", k.acquire("k").Record.Attempt, 1)
	}},
	{
		"inspect-tombstone",
		"once Audit has passed the body is not shown, while the record takes part in claims", func(k *kit) {
			l := k.take("k")
			k.checkpoint(l, "a", "1")
			k.complete(l, "answer", retrysafe.Retention{Replay: time.Hour, Key: 48 * time.Hour, Audit: 2 * time.Hour})
			k.age(2*time.Hour - slack)
			k.sweepIfAble()
			equal(k, "same result", sameResult(k.inspect("k", 1)[0].Result, result("answer")), true)
			k.age(past)
			for range 2 {
				r := k.inspect("k", 1)[0]
				equal(k, "same result", sameResult(r.Result, retrysafe.Result{Code: 201}), true)
				k.steps(r.Steps)
				k.sweepIfAble()
			}
		},
	},
	{
		"inspect-expired",
		"a record that never ended is gone once its key is free, however long its Audit", func(k *kit) {
			k.take("pending", keeping(keepForSupport))
			released := k.take("released", keeping(keepForSupport))
			k.checkpoint(released, "a", "1")
			k.release(released)
			k.age(leaseTime + time.Hour + slack)
			k.inspect("pending", 0)
			k.inspect("released", 0)
			k.list(retrysafe.ListParams{})
		},
	},
	{"inspect-copies", "a caller that changes what Inspect returned changes nothing in the store", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "a", "1")
		k.complete(l, "answer", keepLonger)
		r := k.inspect("k", 1)[0]
		r.Result.Body[0], r.Result.Meta[0], r.Steps[0].Data[0] = 'X', 'X', 'X'
		r = k.inspect("k", 1)[0]
		equal(k, "same result", sameResult(r.Result, result("answer")), true)
		k.steps(r.Steps, "a=1")
	}},
	{"list", "List shows the newest records first, without bodies and steps", func(k *kit) {
		l := k.take("pending")
		k.checkpoint(l, "a", "1")
		done := k.finish("done", "answer", keepAll)
		found := k.list(retrysafe.ListParams{}, "done", "pending")
		equal(k, "body", len(found[0].Result.Body), 0)
		equal(k, "code", found[0].Result.Code, 201)
		equal(k, "steps", len(found[1].Steps), 0)
		equal(k, "fence", found[0].Fence, done.Fence)
		k.near("KeyLeft", found[0].KeyLeft, keyTime)
		k.near("LeaseLeft", found[1].LeaseLeft, leaseTime)
	}},
	{"list-selects", "List selects by state and by scope; the empty scope is a scope", func(k *kit) {
		k.take("pending")
		k.finish("done", "answer", keepLonger)
		k.must("Complete", k.store.Complete(k.ctx, k.take("failed"), retrysafe.Result{Failed: true}, keepLonger))
		released := k.take("released", inScope(""))
		k.checkpoint(released, "a", "1")
		k.release(released)
		none, tenant, other := "", "tenant", "Tenant"
		k.list(retrysafe.ListParams{State: retrysafe.Pending}, "pending")
		k.list(retrysafe.ListParams{State: retrysafe.Succeeded}, "done")
		k.list(retrysafe.ListParams{State: retrysafe.Failed}, "failed")
		k.list(retrysafe.ListParams{State: retrysafe.Released}, "released")
		k.list(retrysafe.ListParams{Scope: &tenant}, "failed", "done", "pending")
		k.list(retrysafe.ListParams{Scope: &none}, "released")
		k.list(retrysafe.ListParams{Scope: &other})
		k.list(retrysafe.ListParams{State: retrysafe.Failed, Scope: &none})
	}},
	{"list-continues", "Before continues a listing below the fence of a record's first claim", func(k *kit) {
		first := k.abandon("first")
		second, third := k.take("second"), k.take("third")
		k.take("first", takingOver)
		k.list(retrysafe.ListParams{Limit: 2}, "third", "second")
		k.list(retrysafe.ListParams{Before: third.Fence, Limit: 1}, "second")
		k.list(retrysafe.ListParams{Before: second.Fence}, "first")
		k.list(retrysafe.ListParams{Before: first.Fence})
	}},
	{
		"list-in-pages",
		"pages of a listing show each record, however fast the records came; 100 are a page, 1000 the largest", func(k *kit) {
			const all = 1010
			together(crowd, func(i int) {
				for n := i; n < all; n += crowd {
					if _, err := k.store.Claim(k.ctx, params(fmt.Sprint(n))); err != nil {
						k.Errorf("Claim: %v", err)
					}
				}
			})
			seen := map[string]bool{}
			var p retrysafe.ListParams
			for len(seen) < all {
				found := k.page(p, min(100, all-len(seen)))
				for _, r := range found {
					equal(k, "seen before", seen[r.Key.ID], false)
					seen[r.Key.ID] = true
					p.Before = r.FirstFence
				}
			}
			k.page(p, 0)
			for limit, want := range map[int]int{1: 1, 1000: 1000, 1001: 1000, -1: 100} {
				k.page(retrysafe.ListParams{Limit: limit}, want)
			}
		},
	},
	{"stats", "Stats counts the records by state, and the abandoned ones among the pending", func(k *kit) {
		k.abandon("abandoned")
		k.take("pending 1")
		k.take("pending 2")
		for i := range 3 {
			l := k.take(fmt.Sprint("released ", i))
			k.checkpoint(l, "a", "1")
			k.release(l)
		}
		for i := range 4 {
			k.finish(fmt.Sprint("done ", i), "answer", keepLonger)
		}
		for i := range 5 {
			l := k.take(fmt.Sprint("failed ", i))
			k.must("Complete", k.store.Complete(k.ctx, l, retrysafe.Result{Failed: true}, keepLonger))
		}
		stats, err := k.inspector().Stats(k.ctx)
		k.must("Stats", err)
		if stats.Bytes <= 0 {
			k.Errorf("Bytes: got %d, want more than 0", stats.Bytes)
		}
		stats.Bytes = 0
		equal(k, "stats", stats, retrysafe.Stats{Pending: 3, Abandoned: 1, Released: 3, Succeeded: 4, Failed: 5})
		k.take("one more")
		stats, err = k.inspector().Stats(k.ctx)
		k.must("Stats", err)
		equal(k, "pending", stats.Pending, 4)
	}},
	{"stats-released", "a key that was released without steps, and is not claimed again, is soon gone from Stats, " +
		"however long its Keep", func(k *kit) {
		if _, ok := k.store.(retrysafe.Sweeper); !ok {
			return
		}
		for i := range 20 {
			k.release(k.take(fmt.Sprint(i), keeping(keepLonger)))
		}
		k.age(10 * time.Minute)
		k.sweepAll()
		stats, err := k.inspector().Stats(k.ctx)
		k.must("Stats", err)
		stats.Bytes = 0
		equal(k, "stats", stats, retrysafe.Stats{})
	}},
	{"inspect-context", "a look whose context has ended fails with the context's error", func(k *kit) {
		ended, cancel := context.WithCancel(k.ctx)
		cancel()
		_, err := k.inspector().Inspect(ended, params("k").Key.Digest())
		k.refused("Inspect", err)
		_, err = k.inspector().List(ended, retrysafe.ListParams{})
		k.refused("List", err)
		_, err = k.inspector().Stats(ended)
		k.refused("Stats", err)
	}},
}
