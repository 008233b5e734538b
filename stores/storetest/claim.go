package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe"
)

var claimRules = []rule{
	{"acquires", "the first claim of a key acquires it", func(k *kit) {
		c := k.acquire("k")
		k.record(c.Record, retrysafe.Record{
			Key: c.Lease.Key, Fingerprint: "raw1:one", State: retrysafe.Pending,
			Fence: c.Lease.Fence, Attempt: 1, LeaseLeft: leaseTime,
		})
	}},
	{
		"in-flight",
		"a key whose lease runs is in flight for all other owners, and their claims change nothing", func(k *kit) {
			l := k.take("k")
			for range 3 {
				r := k.find(retrysafe.InFlight, "k")
				equal(k, "fence", r.Fence, l.Fence)
				equal(k, "attempt", r.Attempt, 1)
			}
			k.complete(l, "answer", keepLonger)
		},
	},
	{"done", "a completed key is done for all claims, its owner's included, and they get its result", func(k *kit) {
		l := k.finish("k", "answer", keepLonger)
		k.replays("k", "answer")
		k.find(retrysafe.Done, "k", by(l.Owner))
	}},
	{
		"done-for-all",
		"a completed key is done for other requests too, and for those that ask to take over", func(k *kit) {
			k.finish("k", "answer", keepLonger)
			r := k.find(retrysafe.Done, "k", anotherRequest, takingOver)
			equal(k, "fingerprint", r.Fingerprint, "raw1:one")
		},
	},
	{"failed", "a failure is a result like any other", func(k *kit) {
		failure := retrysafe.Result{Failed: true, Code: 402, Meta: []byte("m"), Body: []byte("no money")}
		k.must("Complete", k.store.Complete(k.ctx, k.take("k"), failure, keepLonger))
		r := k.find(retrysafe.Done, "k")
		equal(k, "state", r.State, retrysafe.Failed)
		equal(k, "same result", sameResult(r.Result, failure), true)
	}},
	{
		"repeats",
		"claiming again with the owner that holds the key returns the same fence and adds no attempt", func(k *kit) {
			l := k.take("k")
			again := k.acquire("k", by(l.Owner))
			equal(k, "lease", again.Lease, l)
			equal(k, "attempt", again.Record.Attempt, 1)
		},
	},
	{"repeats-afresh", "claiming again makes the lease run afresh", func(k *kit) {
		l := k.take("k")
		k.age(leaseTime - slack)
		again := k.acquire("k", by(l.Owner))
		k.near("LeaseLeft", again.Record.LeaseLeft, leaseTime)
		k.near("Age", again.Record.Age, leaseTime-slack)
		k.age(leaseTime - slack)
		k.find(retrysafe.InFlight, "k")
	}},
	{
		"repeats-lapsed",
		"claiming again holds even if the lease has run out, and hands out the saved steps", func(k *kit) {
			l := k.take("k")
			k.checkpoint(l, "a", "1")
			k.age(leaseTime + slack)
			again := k.acquire("k", by(l.Owner))
			equal(k, "lease", again.Lease, l)
			k.steps(again.Record.Steps, "a=1")
			k.find(retrysafe.InFlight, "k", takingOver)
		},
	},
	{
		"repeats-not-for-losers",
		"an owner that was taken over does not get the key back by claiming again", func(k *kit) {
			zombie := k.abandon("k")
			k.take("k", takingOver)
			k.find(retrysafe.InFlight, "k", by(zombie.Owner), takingOver)
		},
	},
	{"repeats-after-release", "an owner that released the key and claims it again gets a new fence", func(k *kit) {
		l := k.take("k")
		k.release(l)
		again := k.take("k", by(l.Owner))
		k.grows(l.Fence, again.Fence)
		k.allLost(l)
		k.complete(again, "answer", keepLonger)
	}},
	{"independent", "keys do not disturb each other", func(k *kit) {
		a, b, c := k.take("a"), k.take("b"), k.take("c")
		k.complete(a, "of a", keepLonger)
		k.release(b)
		k.checkpoint(c, "s", "1")
		k.replays("a", "of a")
		k.take("b", anotherRequest)
		k.steps(k.find(retrysafe.InFlight, "c").Steps, "s=1")
	}},
	{"lease-is-of-its-key", "a lease is worth nothing on another key", func(k *kit) {
		a, b := k.take("a"), k.take("b")
		b.Owner, b.Fence = a.Owner, a.Fence
		k.allLost(b)
		k.find(retrysafe.InFlight, "a")
		k.find(retrysafe.InFlight, "b")
	}},
	{"for-ever", "the longest durations there are do not wrap around", func(k *kit) {
		const ever = time.Duration(1<<63 - 1)
		keep := retrysafe.Retention{Replay: ever, Key: ever, Audit: ever}
		l := k.take("pending", lasting(ever), keeping(keep))
		k.age(leaseTime)
		k.find(retrysafe.InFlight, "pending", takingOver)
		k.extend(l, ever)
		k.find(retrysafe.InFlight, "pending", takingOver)
		k.extend(l, 0)
		k.find(retrysafe.Abandoned, "pending")
		k.finish("done", "answer", keep)
		k.age(leaseTime)
		if r := k.replays("done", "answer"); r.KeyLeft < 100*365*24*time.Hour {
			k.Errorf("KeyLeft: got %v, want hundreds of years", r.KeyLeft)
		}
	}},
}

var recordRules = []rule{
	{"record-in-flight", "the record of a key in flight shows its ages and what is left of its lease", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "a", "1")
		k.age(time.Minute)
		k.record(k.find(retrysafe.InFlight, "k", anotherRequest), retrysafe.Record{
			Key: l.Key, Fingerprint: "raw1:one", State: retrysafe.Pending, Fence: l.Fence, Attempt: 1,
			Steps: []retrysafe.StepResult{step("a", "1")},
			Age:   time.Minute, LeaseLeft: leaseTime - time.Minute,
		})
	}},
	{
		"record-abandoned",
		"the record of an abandoned key shows what is left of the retention, which counts from the lease's end",
		func(k *kit) {
			l := k.take("k")
			k.checkpoint(l, "a", "1")
			k.age(leaseTime + 10*time.Minute)
			k.record(k.find(retrysafe.Abandoned, "k"), retrysafe.Record{
				Key: l.Key, Fingerprint: "raw1:one", State: retrysafe.Pending, Fence: l.Fence, Attempt: 1,
				Steps: []retrysafe.StepResult{step("a", "1")}, Age: leaseTime + 10*time.Minute,
				ReplayLeft: replayTime - 10*time.Minute, KeyLeft: keyTime - 10*time.Minute, AuditLeft: auditTime - 10*time.Minute,
			})
		},
	},
	{
		"record-done",
		"the record of a done key shows its result, and what is left of the retention it was completed with", func(k *kit) {
			l := k.take("k")
			k.age(time.Minute)
			k.complete(l, "answer", keepLonger)
			k.age(10 * time.Minute)
			r := k.find(retrysafe.Done, "k")
			k.record(r, retrysafe.Record{
				Key: l.Key, Fingerprint: "raw1:one", State: retrysafe.Succeeded, Fence: l.Fence, Attempt: 1,
				Result: result("answer"), Age: 11 * time.Minute, EndedAge: 10 * time.Minute,
				ReplayLeft: keepLonger.Replay - 10*time.Minute, KeyLeft: keepLonger.Key - 10*time.Minute,
				AuditLeft: keepLonger.Audit - 10*time.Minute,
			})
		},
	},
	{"record-released", "the record of a released key counts from the release", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "a", "1")
		k.age(time.Minute)
		k.release(l)
		k.age(10 * time.Minute)
		k.record(k.find(retrysafe.InFlight, "k", anotherRequest), retrysafe.Record{
			Key: l.Key, Fingerprint: "raw1:one", State: retrysafe.Released, Fence: l.Fence, Attempt: 1,
			Steps: []retrysafe.StepResult{step("a", "1")}, Age: 11 * time.Minute, EndedAge: 10 * time.Minute,
			ReplayLeft: replayTime - 10*time.Minute, KeyLeft: keyTime - 10*time.Minute, AuditLeft: auditTime - 10*time.Minute,
		})
	}},
	{"record-taken-over", "a take-over adds an attempt, starts a lease, and keeps the record's age", func(k *kit) {
		first := k.abandon("k")
		c := k.acquire("k", takingOver, lasting(7*time.Minute))
		k.record(c.Record, retrysafe.Record{
			Key: c.Lease.Key, Fingerprint: "raw1:one", State: retrysafe.Pending, Fence: c.Lease.Fence, Attempt: 2,
			FirstFence: first.Fence,
			Age:        leaseTime + slack, LeaseLeft: 7 * time.Minute,
		})
	}},
	{
		"record-resumed",
		"a resumption adds an attempt, starts a lease, and keeps the record's age and steps", func(k *kit) {
			l := k.take("k")
			k.checkpoint(l, "a", "1")
			k.release(l)
			k.age(30 * time.Minute)
			c := k.acquire("k", lasting(7*time.Minute))
			k.record(c.Record, retrysafe.Record{
				Key: l.Key, Fingerprint: "raw1:one", State: retrysafe.Pending, Fence: c.Lease.Fence, Attempt: 2,
				FirstFence: l.Fence,
				Steps:      []retrysafe.StepResult{step("a", "1")}, Age: 30 * time.Minute, LeaseLeft: 7 * time.Minute,
			})
		},
	},
	{"record-anew", "after expiry and after a release without steps the record starts anew", func(k *kit) {
		k.release(k.take("k"))
		k.age(time.Hour)
		c := k.acquire("k", anotherRequest)
		k.record(c.Record, retrysafe.Record{
			Key: c.Lease.Key, Fingerprint: "raw1:two", State: retrysafe.Pending, Fence: c.Lease.Fence, Attempt: 1,
			LeaseLeft: leaseTime,
		})
		k.complete(c.Lease, "answer", keepAll)
		k.age(keyTime + slack)
		c = k.acquire("k")
		k.record(c.Record, retrysafe.Record{
			Key: c.Lease.Key, Fingerprint: "raw1:one", State: retrysafe.Pending, Fence: c.Lease.Fence, Attempt: 1,
			LeaseLeft: leaseTime,
		})
	}},
}
