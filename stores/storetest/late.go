package storetest

import (
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
)

// lateCalls are what an attempt has asked for, and what its caller has given up: each may arrive at any time later.
var lateCalls = []struct {
	name string
	do   func(k *kit, p retrysafe.ClaimParams, l retrysafe.Lease) error
}{
	{"Claim", func(k *kit, p retrysafe.ClaimParams, _ retrysafe.Lease) error {
		_, err := k.store.Claim(k.ctx, p)
		return err
	}},
	{"Claim that takes over", func(k *kit, p retrysafe.ClaimParams, _ retrysafe.Lease) error {
		p.TakeOver = true
		_, err := k.store.Claim(k.ctx, p)
		return err
	}},
	{"Extend", func(k *kit, _ retrysafe.ClaimParams, l retrysafe.Lease) error {
		return k.store.Extend(k.ctx, l, 10*time.Hour)
	}},
	{"Extend by nothing", func(k *kit, _ retrysafe.ClaimParams, l retrysafe.Lease) error {
		return k.store.Extend(k.ctx, l, 0)
	}},
	{"Checkpoint", func(k *kit, _ retrysafe.ClaimParams, l retrysafe.Lease) error {
		return k.store.Checkpoint(k.ctx, l, step("late", "l"))
	}},
	{"Complete", func(k *kit, _ retrysafe.ClaimParams, l retrysafe.Lease) error {
		return k.store.Complete(k.ctx, l, result("late"), keepAll)
	}},
	{"Release", func(k *kit, _ retrysafe.ClaimParams, l retrysafe.Lease) error {
		return k.store.Release(k.ctx, l)
	}},
}

// lateCallRules are about calls of an attempt that arrive after another attempt has begun, or after this one has ended.
func lateCallRules() (rules []rule) {
	for name, next := range map[string]func(k *kit, l retrysafe.Lease) retrysafe.Lease{
		"released": func(k *kit, l retrysafe.Lease) retrysafe.Lease {
			k.release(l)
			return k.take("k")
		},
		"released-with-steps": func(k *kit, l retrysafe.Lease) retrysafe.Lease {
			k.checkpoint(l, "a", "1")
			k.release(l)
			return k.take("k")
		},
		"taken-over": func(k *kit, _ retrysafe.Lease) retrysafe.Lease {
			k.age(leaseTime + slack)
			return k.take("k", takingOver)
		},
		"given-up": func(k *kit, l retrysafe.Lease) retrysafe.Lease {
			k.extend(l, 0)
			return k.take("k", takingOver)
		},
		"expired": func(k *kit, _ retrysafe.Lease) retrysafe.Lease {
			k.age(leaseTime + keyTime + slack)
			return k.take("k")
		},
		"completed-and-expired": func(k *kit, l retrysafe.Lease) retrysafe.Lease {
			k.complete(l, "before", keepAll)
			k.age(keyTime + slack)
			return k.take("k")
		},
	} {
		rules = append(rules, rule{
			"late-calls/" + name,
			"no call of an earlier attempt that arrives late changes what a newer one relies on", func(k *kit) {
				p := params("k")
				old := k.claim(p).Lease
				newer := next(k, old)
				before := k.find(retrysafe.InFlight, "k")
				for _, late := range lateCalls {
					k.unharmed(late.name, late.do(k, p, old))
					r := k.find(retrysafe.InFlight, "k")
					equal(k, "fence after a late "+late.name, r.Fence, newer.Fence)
					equal(k, "steps after a late "+late.name, len(r.Steps), len(before.Steps))
					k.near("LeaseLeft after a late "+late.name, r.LeaseLeft, leaseTime)
				}
				k.complete(newer, "answer", keepLonger)
				k.replays("k", "answer")
			},
		})
	}
	return append(rules, rule{
		"late-calls/completed",
		"no call of a completed attempt that arrives late changes its record", func(k *kit) {
			p := params("k")
			l := k.claim(p).Lease
			k.checkpoint(l, "a", "1")
			k.complete(l, "answer", keepLonger)
			for _, late := range lateCalls {
				k.unharmed(late.name, late.do(k, p, l))
				r := k.replays("k", "answer")
				k.near("ReplayLeft after a late "+late.name, r.ReplayLeft, keepLonger.Replay)
				k.near("KeyLeft after a late "+late.name, r.KeyLeft, keepLonger.Key)
			}
		},
	})
}

// unharmed expects that a late call had no effect, or was refused.
func (k *kit) unharmed(method string, err error) {
	k.Helper()
	if err != nil && !errors.Is(err, retrysafe.ErrLeaseLost) {
		k.Errorf("a late %s: %v", method, err)
	}
}
