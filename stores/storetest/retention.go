package storetest

import (
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

var retentionRules = []rule{
	{"replay-window", "until Replay a retry gets the full answer; after it, that the work is done", func(k *kit) {
		k.finish("k", "answer", keepAll)
		k.age(replayTime - slack)
		k.replays("k", "answer")
		k.age(past)
		r := k.find(retrysafe.Done, "k")
		equal(k, "ReplayLeft", r.ReplayLeft, 0)
		equal(k, "same result", sameResult(r.Result, retrysafe.Result{Code: 201}), true)
		equal(k, "state", r.State, retrysafe.Succeeded)
	}},
	{"key-window", "until Key the key stays taken; after it the same request runs as if it were new", func(k *kit) {
		k.finish("k", "answer", keepAll)
		k.age(keyTime - slack)
		k.find(retrysafe.Done, "k")
		k.age(past)
		equal(k, "attempt", k.acquire("k").Record.Attempt, 1)
	}},
	{"key-window-other-request", "after Key the key is free for other requests too", func(k *kit) {
		k.finish("k", "answer", keepAll)
		k.age(keyTime + slack)
		equal(k, "fingerprint", k.acquire("k", anotherRequest).Record.Fingerprint, "raw1:two")
	}},
	{"audit-shorter-than-key", "a short Audit does not shorten a long Key", func(k *kit) {
		k.finish("k", "answer", retrysafe.Retention{Replay: time.Hour, Key: 48 * time.Hour, Audit: 2 * time.Hour})
		k.age(2*time.Hour + slack)
		r := k.find(retrysafe.Done, "k")
		equal(k, "AuditLeft", r.AuditLeft, 0)
		k.age(46*time.Hour - past)
		k.find(retrysafe.Done, "k")
		k.age(past)
		k.take("k")
	}},
	{"retention-of-completion", "the Retention given to Complete replaces the one of the claim", func(k *kit) {
		l := k.take("k", keeping(keepLonger))
		k.complete(l, "answer", keepAll)
		r := k.replays("k", "answer")
		k.near("ReplayLeft", r.ReplayLeft, replayTime)
		k.near("KeyLeft", r.KeyLeft, keyTime)
		k.near("AuditLeft", r.AuditLeft, auditTime)
	}},
	{"retention-counts-from-the-end", "the Retention counts from the completion, not from the claim", func(k *kit) {
		l := k.take("k", lasting(12*time.Hour))
		k.age(10 * time.Hour)
		k.complete(l, "answer", keepAll)
		k.age(replayTime - slack)
		k.replays("k", "answer")
	}},
	{"retention-defaults", "zero fields of a Retention take their defaults, at Claim and at Complete", func(k *kit) {
		k.extend(k.take("claimed", keeping(retrysafe.Retention{})), 0)
		r := k.find(retrysafe.Abandoned, "claimed")
		k.near("KeyLeft", r.KeyLeft, retrysafe.DefaultRetention)
		k.finish("completed", "answer", retrysafe.Retention{})
		r = k.find(retrysafe.Done, "completed")
		k.near("ReplayLeft", r.ReplayLeft, retrysafe.DefaultRetention)
		k.near("KeyLeft", r.KeyLeft, retrysafe.DefaultRetention)
		k.near("AuditLeft", r.AuditLeft, retrysafe.DefaultRetention)
	}},
	{"retention-nests", "a Key or an Audit shorter than Replay is raised to it", func(k *kit) {
		k.finish("k", "answer", retrysafe.Retention{Replay: 2 * time.Hour, Key: time.Minute, Audit: time.Minute})
		k.age(2*time.Hour - slack)
		r := k.replays("k", "answer")
		k.near("KeyLeft", r.KeyLeft, slack)
		k.near("AuditLeft", r.AuditLeft, slack)
	}},
	{"abandoned-retention", "an abandoned key counts Keep from the end of its lease, and then is free", func(k *kit) {
		k.take("k")
		k.age(leaseTime + keyTime - slack)
		k.find(retrysafe.Abandoned, "k")
		k.age(past)
		c := k.acquire("k", anotherRequest)
		equal(k, "attempt", c.Record.Attempt, 1)
		k.near("Age", c.Record.Age, 0)
	}},
	{"abandoned-retention-of-last-claim", "a take-over brings its own Keep", func(k *kit) {
		k.abandon("k")
		k.extend(k.take("k", takingOver, keeping(keepLonger)), 0)
		k.near("KeyLeft", k.find(retrysafe.Abandoned, "k").KeyLeft, keepLonger.Key)
	}},
	{"running-never-expires", "a key whose lease runs does not expire, however short its Keep", func(k *kit) {
		k.take("k", lasting(72*time.Hour), keeping(retrysafe.Retention{Replay: time.Minute, Key: time.Minute}))
		k.age(71 * time.Hour)
		r := k.find(retrysafe.InFlight, "k", takingOver)
		equal(k, "KeyLeft", r.KeyLeft, 0)
	}},
}

// expired makes one expired record of each kind, and returns their leases by kind.
func expired(k *kit) map[string]retrysafe.Lease {
	k.Helper()
	leases := map[string]retrysafe.Lease{
		"pending":   k.take("pending"),
		"released":  k.take("released"),
		"completed": k.take("completed"),
	}
	k.checkpoint(leases["pending"], "a", "1")
	k.checkpoint(leases["released"], "a", "1")
	k.release(leases["released"])
	k.complete(leases["completed"], "answer", keepAll)
	k.age(leaseTime + keyTime + slack)
	return leases
}

var expiryRules = []rule{
	{
		"expired-is-free",
		"an expired key is claimable at once, for any request, and its record starts anew", func(k *kit) {
			for kind, old := range expired(k) {
				c := k.acquire(kind, anotherRequest)
				k.grows(old.Fence, c.Lease.Fence)
				k.record(c.Record, retrysafe.Record{
					Key: old.Key, Fingerprint: "raw1:two", State: retrysafe.Pending, Fence: c.Lease.Fence, Attempt: 1,
					LeaseLeft: leaseTime,
				})
			}
		},
	},
	{"expired-is-free-in-any-order", "many expired keys are claimable, the last to expire first", func(k *kit) {
		for i := range 20 {
			k.finish(fmt.Sprint(i), "answer", keepAll)
		}
		k.age(keyTime + slack)
		for i := range 20 {
			equal(k, "attempt", k.acquire(fmt.Sprint(19-i)).Record.Attempt, 1)
		}
	}},
	{"expired-is-lost", "no write reaches an expired record, not even its own owner's", func(k *kit) {
		for kind, l := range expired(k) {
			k.lost("Extend", k.store.Extend(k.ctx, l, time.Hour))
			k.lost("Checkpoint", k.store.Checkpoint(k.ctx, l, step("z", "z")))
			k.lost("Complete", k.store.Complete(k.ctx, l, result("zombie"), keepLonger))
			equal(k, "attempt", k.acquire(kind, anotherRequest).Record.Attempt, 1)
		}
	}},
	{"expired-has-no-holder", "releasing an expired key returns nil: no attempt has it", func(k *kit) {
		for kind, l := range expired(k) {
			k.release(l)
			k.take(kind)
			k.lost("Release", k.store.Release(k.ctx, l))
		}
	}},
	{"expired-owner", "the owner of an expired key claims it anew, under a new fence", func(k *kit) {
		for kind, old := range expired(k) {
			c := k.acquire(kind, by(old.Owner))
			k.grows(old.Fence, c.Lease.Fence)
			equal(k, "attempt", c.Record.Attempt, 1)
			k.steps(c.Record.Steps)
		}
	}},
}
