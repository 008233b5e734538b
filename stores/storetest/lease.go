package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe"
)

var takeOverRules = []rule{
	{
		"abandoned",
		"a key whose lease ran out is abandoned: it is reported, and not taken unless asked for", func(k *kit) {
			l := k.take("k")
			k.age(leaseTime - slack)
			k.find(retrysafe.InFlight, "k")
			k.age(past)
			k.find(retrysafe.Abandoned, "k")
			k.find(retrysafe.Abandoned, "k", anotherRequest)
			k.complete(l, "answer", keepLonger)
		},
	},
	{
		"take-over",
		"TakeOver claims an abandoned key under a larger fence; the old owner then can change nothing", func(k *kit) {
			zombie := k.abandon("k")
			l := k.take("k", takingOver)
			k.grows(zombie.Fence, l.Fence)
			k.allLost(zombie)
			k.complete(l, "answer", keepLonger)
			k.allLost(zombie)
			k.replays("k", "answer")
		},
	},
	{"take-over-not-running", "TakeOver takes no key whose lease runs", func(k *kit) {
		l := k.take("k")
		k.find(retrysafe.InFlight, "k", takingOver)
		k.age(leaseTime - slack)
		k.find(retrysafe.InFlight, "k", takingOver)
		k.complete(l, "answer", keepLonger)
	}},
	{
		"take-over-once",
		"a key that was taken over is in flight again, and can be abandoned and taken over again", func(k *kit) {
			first := k.abandon("k")
			second := k.take("k", takingOver)
			k.find(retrysafe.InFlight, "k", takingOver)
			k.age(leaseTime + slack)
			k.find(retrysafe.Abandoned, "k")
			third := k.acquire("k", takingOver)
			equal(k, "attempt", third.Record.Attempt, 3)
			k.grows(first.Fence, second.Fence, third.Lease.Fence)
			k.allLost(second)
		},
	},
	{"take-over-same-request", "TakeOver needs the same fingerprint, byte for byte", func(k *kit) {
		k.abandon("k", forRequest("raw1:abc"))
		for _, other := range []retrysafe.Fingerprint{
			"", "raw1:ab", "raw1:abcd", "raw1:abC", "raw1:abc ", "raw2:abc", "json1:abc", "raw1:abc\x00",
		} {
			k.find(retrysafe.Abandoned, "k", forRequest(other), takingOver)
		}
		k.take("k", forRequest("raw1:abc"), takingOver)
	}},
	{
		"take-over-empty",
		"an empty fingerprint is a fingerprint: it takes over nothing but an empty one", func(k *kit) {
			k.abandon("k", forRequest(""))
			k.find(retrysafe.Abandoned, "k", takingOver)
			c := k.acquire("k", forRequest(""), takingOver)
			equal(k, "fingerprint", c.Record.Fingerprint, "")
		},
	},
	{"take-over-free", "TakeOver makes no difference to a free key", func(k *kit) {
		equal(k, "attempt", k.acquire("k", takingOver).Record.Attempt, 1)
	}},
}

var leaseRules = []rule{
	{"extends", "Extend makes the lease run for d from now: longer, or shorter", func(k *kit) {
		l := k.take("k")
		k.extend(l, time.Hour)
		k.age(time.Hour - slack)
		k.near("LeaseLeft", k.find(retrysafe.InFlight, "k").LeaseLeft, slack)
		k.extend(l, time.Minute)
		k.near("LeaseLeft", k.find(retrysafe.InFlight, "k").LeaseLeft, time.Minute)
		k.age(time.Minute + slack)
		k.find(retrysafe.Abandoned, "k")
	}},
	{"extends-again", "Extend may be repeated and adds nothing", func(k *kit) {
		l := k.take("k")
		k.extend(l, 10*time.Minute)
		k.extend(l, 10*time.Minute)
		r := k.find(retrysafe.InFlight, "k")
		k.near("LeaseLeft", r.LeaseLeft, 10*time.Minute)
		equal(k, "attempt", r.Attempt, 1)
		equal(k, "fence", r.Fence, l.Fence)
	}},
	{"extends-late", "Extend revives a lease that has run out, unless another attempt took over", func(k *kit) {
		l := k.abandon("k")
		k.extend(l, time.Minute)
		k.find(retrysafe.InFlight, "k", takingOver)
		k.age(time.Minute + slack)
		k.take("k", takingOver)
		k.lost("Extend", k.store.Extend(k.ctx, l, time.Minute))
	}},
	{"extends-by-nothing", "Extend with 0 ends the lease at once, which leaves the key abandoned", func(k *kit) {
		l := k.take("k")
		k.extend(l, 0)
		equal(k, "LeaseLeft", k.find(retrysafe.Abandoned, "k").LeaseLeft, 0)
		k.extend(l, 0)
		k.find(retrysafe.Abandoned, "k")
		k.extend(l, time.Minute)
		k.find(retrysafe.InFlight, "k", takingOver)
		k.extend(l, 0)
		k.complete(l, "answer", keepLonger)
	}},
	{"extends-retention", "an abandoned key's retention counts from the end of the extended lease", func(k *kit) {
		l := k.take("k")
		k.extend(l, time.Hour)
		k.age(time.Hour + 10*time.Minute)
		k.near("KeyLeft", k.find(retrysafe.Abandoned, "k").KeyLeft, keyTime-10*time.Minute)
	}},
	{"extends-nothing-else", "Extend keeps fingerprint, steps and age", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "a", "1")
		k.age(time.Minute)
		k.extend(l, leaseTime)
		k.record(k.find(retrysafe.InFlight, "k"), retrysafe.Record{
			Key: l.Key, Fingerprint: "raw1:one", State: retrysafe.Pending, Fence: l.Fence, Attempt: 1,
			Steps: []retrysafe.StepResult{step("a", "1")}, Age: time.Minute, LeaseLeft: leaseTime,
		})
	}},
}

func (k *kit) endLease(id string, fence int64) error {
	return k.store.(retrysafe.LeaseEnder).EndLease(k.ctx, params(id).Key.Digest(), fence)
}

var enderRules = []rule{
	{"ends-a-lease", "EndLease leaves the key abandoned at once, to be extended, taken over or completed", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "a", "1")
		other := k.take("other")
		k.must("EndLease", k.endLease("k", l.Fence))
		r := k.find(retrysafe.Abandoned, "k")
		equal(k, "fence", r.Fence, l.Fence)
		k.near("KeyLeft", r.KeyLeft, keyTime)
		k.extend(l, time.Minute)
		k.find(retrysafe.InFlight, "k", takingOver)
		k.must("EndLease", k.endLease("k", l.Fence))
		k.complete(l, "answer", keepLonger)
		k.replays("k", "answer")
		k.must("EndLease", k.endLease("other", other.Fence))
		equal(k, "attempt", k.acquire("other", takingOver).Record.Attempt, 2)
		k.allLost(other)
	}},
	{"ends-a-lease-again", "EndLease may be repeated, and a lease that has run out stays as it is", func(k *kit) {
		l := k.abandon("k")
		k.age(10 * time.Minute)
		k.must("EndLease", k.endLease("k", l.Fence))
		k.must("EndLease", k.endLease("k", l.Fence))
		k.near("KeyLeft", k.find(retrysafe.Abandoned, "k").KeyLeft, keyTime-10*time.Minute-slack)
	}},
	{"ends-no-other-lease", "EndLease of a claim that does not have the key returns ErrLeaseLost", func(k *kit) {
		k.lost("EndLease", k.endLease("k", 1))
		old := k.abandon("k")
		l := k.take("k", takingOver)
		k.lost("EndLease", k.endLease("k", old.Fence))
		k.near("LeaseLeft", k.find(retrysafe.InFlight, "k").LeaseLeft, leaseTime)
		k.complete(l, "answer", keepLonger)
		k.lost("EndLease", k.endLease("k", l.Fence))
		k.replays("k", "answer")
		released := k.take("released")
		k.checkpoint(released, "a", "1")
		k.release(released)
		k.lost("EndLease", k.endLease("released", released.Fence))
		expired := k.abandon("expired")
		k.age(keyTime + slack)
		k.lost("EndLease", k.endLease("expired", expired.Fence))
	}},
}

var fenceRules = []rule{
	{
		"fenced",
		"after a take-over the old owner can change nothing: not extend, checkpoint, complete, release", func(k *kit) {
			zombie := k.take("k")
			k.checkpoint(zombie, "a", "1")
			k.age(leaseTime + slack)
			l := k.take("k", takingOver)
			k.allLost(zombie)
			r := k.find(retrysafe.InFlight, "k")
			k.steps(r.Steps, "a=1")
			k.near("LeaseLeft", r.LeaseLeft, leaseTime)
			k.complete(l, "answer", keepLonger)
			k.replays("k", "answer")
		},
	},
	{"fenced-by-number", "the right owner with another fence can change nothing", func(k *kit) {
		l := k.take("k")
		for _, off := range []int64{-1, 1, -l.Fence} {
			wrong := l
			wrong.Fence += off
			k.allLost(wrong)
		}
		equal(k, "steps", len(k.find(retrysafe.InFlight, "k").Steps), 0)
	}},
	{"fenced-by-owner", "the right fence with another owner can change nothing", func(k *kit) {
		wrong := k.take("k")
		wrong.Owner = retrysafe.NewOwner()
		k.allLost(wrong)
		wrong.Owner = retrysafe.Owner{}
		k.allLost(wrong)
		equal(k, "steps", len(k.find(retrysafe.InFlight, "k").Steps), 0)
	}},
	{
		"fenced-same-owner",
		"an owner that claims a key again after a release is fenced off from its first claim", func(k *kit) {
			first := k.take("k")
			k.checkpoint(first, "a", "1")
			k.release(first)
			second := k.take("k", by(first.Owner))
			k.allLost(first)
			k.complete(second, "answer", keepLonger)
			k.replays("k", "answer")
		},
	},
	{"fence-grows", "the fence grows through release, take-over, resumption and expiry", func(k *kit) {
		first := k.take("k")
		k.release(first)
		second := k.abandon("k")
		third := k.take("k", takingOver)
		k.checkpoint(third, "a", "1")
		k.release(third)
		fourth := k.take("k")
		k.complete(fourth, "answer", keepAll)
		k.age(keyTime + slack)
		fifth := k.take("k")
		k.grows(first.Fence, second.Fence, third.Fence, fourth.Fence, fifth.Fence)
	}},
	{"fence-grows-fast", "the fence grows through two hundred claims as fast as they come", func(k *kit) {
		last := k.take("k")
		for range 200 {
			k.release(last)
			next := k.take("k")
			k.grows(last.Fence, next.Fence)
			last = next
		}
	}},
	{
		"fence-follows-the-clock",
		"where no record exists the fence is the clock's, so that it grows even if the store is made anew",
		func(k *kit) {
			old := k.take("k")
			k.grows(old.Fence, newKit(k.T, k.h).take("k").Fence)
		},
	},
	{"lease-never-claimed", "a lease on a key that was never claimed holds nothing", func(k *kit) {
		l := k.take("k")
		l.Key.ID = "never claimed"
		k.lost("Extend", k.store.Extend(k.ctx, l, time.Hour))
		k.lost("Checkpoint", k.store.Checkpoint(k.ctx, l, step("a", "1")))
		k.lost("Complete", k.store.Complete(k.ctx, l, result("x"), keepLonger))
		k.release(l)
		equal(k, "attempt", k.acquire("never claimed").Record.Attempt, 1)
	}},
}
