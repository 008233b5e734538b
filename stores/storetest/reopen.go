package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe"
)

// reopen ends the store and goes on with what it left behind.
func (k *kit) reopen() {
	k.Helper()
	k.store = k.h.Reopen(k.T, k.store)
}

var reopenRules = []rule{
	{
		"reopen-claims",
		"an acknowledged claim outlives the process: no other claim gets the key, and its owner still holds it",
		func(k *kit) {
			l := k.take("k")
			k.age(time.Minute)
			k.reopen()
			k.near("LeaseLeft", k.find(retrysafe.InFlight, "k", takingOver).LeaseLeft, leaseTime-time.Minute)
			equal(k, "lease", k.take("k", by(l.Owner)), l)
			k.complete(l, "answer", keepLonger)
		},
	},
	{"reopen-abandons", "an attempt that ended with its process is abandoned when its lease runs out", func(k *kit) {
		zombie := k.take("k")
		k.checkpoint(zombie, "a", "1")
		k.reopen()
		k.age(leaseTime + slack)
		k.find(retrysafe.Abandoned, "k")
		c := k.acquire("k", takingOver)
		k.steps(c.Record.Steps, "a=1")
		k.grows(zombie.Fence, c.Lease.Fence)
		k.allLost(zombie)
	}},
	{"reopen-results", "an acknowledged completion outlives the process, with its retention", func(k *kit) {
		l := k.finish("k", "answer", keepAll)
		k.reopen()
		k.record(k.find(retrysafe.Done, "k"), retrysafe.Record{
			Key: l.Key, Fingerprint: "raw1:one", State: retrysafe.Succeeded, Fence: l.Fence, Attempt: 1,
			Result: result("answer"), ReplayLeft: replayTime, KeyLeft: keyTime, AuditLeft: auditTime,
		})
		k.complete(l, "another", keepLonger)
		k.replays("k", "answer")
		k.age(keyTime + slack)
		k.take("k")
	}},
	{"reopen-extends", "an acknowledged extension outlives the process", func(k *kit) {
		l := k.take("k")
		k.extend(l, time.Hour)
		k.reopen()
		k.near("LeaseLeft", k.find(retrysafe.InFlight, "k").LeaseLeft, time.Hour)
	}},
	{"reopen-steps", "acknowledged steps outlive the process, in their order, through a release too", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "b", "1")
		k.reopen()
		k.checkpoint(l, "a", "2")
		k.release(l)
		k.reopen()
		k.find(retrysafe.InFlight, "k", anotherRequest)
		c := k.acquire("k")
		k.steps(c.Record.Steps, "b=1", "a=2")
		equal(k, "attempt", c.Record.Attempt, 2)
	}},
	{"reopen-fence", "the fence grows across processes, for released and expired keys too", func(k *kit) {
		released, expired := k.take("released"), k.finish("expired", "answer", keepAll)
		k.release(released)
		k.age(auditTime + slack)
		k.sweepIfAble()
		k.reopen()
		k.grows(released.Fence, k.take("released").Fence)
		k.grows(expired.Fence, k.take("expired").Fence)
	}},
}
