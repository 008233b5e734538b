package storetest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe"
)

var stepRules = []rule{
	{"steps-in-order", "saved steps come back in the order in which they were saved, byte for byte", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "z", "first")
		k.checkpoint(l, "a", "second\x00\xff")
		k.checkpoint(l, "m", "")
		again := k.acquire("k", by(l.Owner))
		k.steps(again.Record.Steps, "z=first", "a=second\x00\xff", "m=")
	}},
	{"steps-once", "if the step's name is already saved, the first result stays, in its place", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "a", "1")
		k.checkpoint(l, "b", "2")
		k.checkpoint(l, "a", "3")
		k.steps(k.acquire("k", by(l.Owner)).Record.Steps, "a=1", "b=2")
	}},
	{"steps-names", "step names are bytes: case and spaces count", func(k *kit) {
		l := k.take("k")
		for _, name := range []string{"a", "A", "a ", " a", "ä", "a\u0308"} {
			k.checkpoint(l, name, "1")
		}
		equal(k, "steps", len(k.acquire("k", by(l.Owner)).Record.Steps), 6)
	}},
	{"steps-long-names", "a name of 2048 bytes is taken; a longer one is, or is refused with ErrResultTooLarge", func(k *kit) {
		l := k.take("k")
		random := make([]byte, 3000)
		_, _ = rand.NewChaCha8([32]byte{}).Read(random)
		name := base64.StdEncoding.EncodeToString(random) // which no server can compress by much
		k.checkpoint(l, name[:2048], "1")
		if err := k.store.Checkpoint(k.ctx, l, step(name, "2")); err != nil && !errors.Is(err, retrysafe.ErrResultTooLarge) {
			k.Errorf("Checkpoint with a name of 4000 bytes: got %v, want ErrResultTooLarge", err)
		}
		k.checkpoint(l, "a", "3")
	}},
	{"steps-late", "a lease that ran out may still save steps, unless another attempt took over", func(k *kit) {
		l := k.abandon("k")
		k.checkpoint(l, "a", "1")
		second := k.acquire("k", takingOver)
		k.steps(second.Record.Steps, "a=1")
		k.lost("Checkpoint", k.store.Checkpoint(k.ctx, l, step("b", "2")))
		k.steps(k.acquire("k", by(second.Lease.Owner)).Record.Steps, "a=1")
	}},
	{
		"steps-survive-take-over",
		"a take-over hands the saved steps to the next attempt, which adds to them", func(k *kit) {
			first := k.take("k")
			k.checkpoint(first, "a", "1")
			k.age(leaseTime + slack)
			second := k.acquire("k", takingOver)
			k.steps(second.Record.Steps, "a=1")
			k.checkpoint(second.Lease, "a", "changed")
			k.checkpoint(second.Lease, "b", "2")
			k.age(leaseTime + slack)
			k.steps(k.acquire("k", takingOver).Record.Steps, "a=1", "b=2")
		},
	},
	{
		"steps-survive-release",
		"a release hands the saved steps to the next attempt, which adds to them", func(k *kit) {
			first := k.take("k")
			k.checkpoint(first, "a", "1")
			k.release(first)
			second := k.acquire("k")
			k.steps(second.Record.Steps, "a=1")
			k.checkpoint(second.Lease, "b", "2")
			k.release(second.Lease)
			k.steps(k.acquire("k").Record.Steps, "a=1", "b=2")
		},
	},
	{"steps-end", "an attempt that has ended saves no more steps", func(k *kit) {
		l := k.finish("k", "answer", keepLonger)
		k.lost("Checkpoint", k.store.Checkpoint(k.ctx, l, step("a", "1")))
	}},
	{"steps-forgotten", "a record that starts anew has no steps", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "a", "1")
		k.complete(l, "answer", keepAll)
		k.age(keyTime + slack)
		k.steps(k.acquire("k").Record.Steps)
	}},
	{"steps-many", "a hundred steps keep their order", func(k *kit) {
		l := k.take("k")
		var want []string
		for i := range 100 {
			name := fmt.Sprintf("step %d", (i*37)%100)
			k.checkpoint(l, name, "x")
			want = append(want, name+"=x")
		}
		k.steps(k.acquire("k", by(l.Owner)).Record.Steps, want...)
	}},
}

var completeRules = []rule{
	{"completes-late", "a lease that ran out may still complete", func(k *kit) {
		k.complete(k.abandon("k"), "late", keepLonger)
		k.replays("k", "late")
	}},
	{"completes-too-late", "after a take-over nothing is saved", func(k *kit) {
		zombie := k.abandon("k")
		k.take("k", takingOver)
		k.lost("Complete", k.store.Complete(k.ctx, zombie, result("zombie"), keepLonger))
		equal(k, "state", k.find(retrysafe.InFlight, "k").State, retrysafe.Pending)
	}},
	{
		"completes-once",
		"when this lease has already completed, the first result and its retention stay", func(k *kit) {
			l := k.finish("k", "first", keepLonger)
			k.age(time.Hour)
			k.complete(l, "second", keepAll)
			k.must("Complete", k.store.Complete(k.ctx, l, retrysafe.Result{Failed: true}, keepAll))
			r := k.replays("k", "first")
			equal(k, "state", r.State, retrysafe.Succeeded)
			k.near("EndedAge", r.EndedAge, time.Hour)
			k.near("KeyLeft", r.KeyLeft, keepLonger.Key-time.Hour)
		},
	},
	{"completes-alone", "a completed key is complete for its own lease alone", func(k *kit) {
		l := k.finish("k", "answer", keepLonger)
		other := l
		other.Owner = retrysafe.NewOwner()
		k.lost("Complete", k.store.Complete(k.ctx, other, result("x"), keepLonger))
		other = l
		other.Fence++
		k.lost("Complete", k.store.Complete(k.ctx, other, result("x"), keepLonger))
	}},
	{"completes-then-lost", "an attempt that has completed can neither extend nor release", func(k *kit) {
		l := k.finish("k", "answer", keepLonger)
		k.lost("Extend", k.store.Extend(k.ctx, l, time.Hour))
		k.lost("Release", k.store.Release(k.ctx, l))
		k.replays("k", "answer")
	}},
	{"completes-not-released", "after Release nothing is saved, whether or not there were steps", func(k *kit) {
		plain, stepped := k.take("plain"), k.take("stepped")
		k.checkpoint(stepped, "a", "1")
		k.release(plain)
		k.release(stepped)
		k.lost("Complete", k.store.Complete(k.ctx, plain, result("x"), keepLonger))
		k.lost("Complete", k.store.Complete(k.ctx, stepped, result("x"), keepLonger))
		equal(k, "attempt", k.acquire("plain", anotherRequest).Record.Attempt, 1)
		k.steps(k.acquire("stepped").Record.Steps, "a=1")
	}},
	{
		"completes-omitted", "a result whose answer was omitted is a result, and stays known as such after Replay",
		func(k *kit) {
			want := retrysafe.Result{Failed: true, Code: 500, Omitted: true}
			k.must("Complete", k.store.Complete(k.ctx, k.take("k"), want, keepLonger))
			equal(k, "same result", sameResult(k.find(retrysafe.Done, "k").Result, want), true)
			k.age(keepLonger.Replay + slack)
			equal(k, "same result", sameResult(k.find(retrysafe.Done, "k").Result, want), true)
		},
	},
	{"completes-with-nothing", "the zero Result is a success without content", func(k *kit) {
		k.must("Complete", k.store.Complete(k.ctx, k.take("k"), retrysafe.Result{}, keepLonger))
		r := k.find(retrysafe.Done, "k")
		equal(k, "state", r.State, retrysafe.Succeeded)
		equal(k, "same result", sameResult(r.Result, retrysafe.Result{}), true)
	}},
	{"completes-codes", "Result.Code is any 32-bit number", func(k *kit) {
		for i, code := range []int{0, -1, 1<<31 - 1, -1 << 31} {
			id := fmt.Sprint(i)
			k.must("Complete", k.store.Complete(k.ctx, k.take(id), retrysafe.Result{Code: code}, keepLonger))
			equal(k, "Code", k.find(retrysafe.Done, id).Result.Code, code)
		}
	}},
}

var releaseRules = []rule{
	{"releases", "without saved steps a release frees the key for any request", func(k *kit) {
		first := k.take("k")
		k.release(first)
		c := k.acquire("k", anotherRequest)
		equal(k, "fingerprint", c.Record.Fingerprint, "raw1:two")
		k.grows(first.Fence, c.Lease.Fence)
	}},
	{"releases-late", "a lease that ran out may still release", func(k *kit) {
		k.release(k.abandon("k"))
		k.take("k", anotherRequest)
	}},
	{"releases-again", "Release may be repeated: no attempt has the key", func(k *kit) {
		l := k.take("k")
		k.release(l)
		k.release(l)
		k.take("k")
		k.lost("Release", k.store.Release(k.ctx, l))
	}},
	{"releases-nothing-of-others", "Release does not touch a key that another attempt has or had", func(k *kit) {
		zombie := k.abandon("k")
		l := k.take("k", takingOver)
		k.lost("Release", k.store.Release(k.ctx, zombie))
		k.find(retrysafe.InFlight, "k")
		k.age(leaseTime + slack)
		k.lost("Release", k.store.Release(k.ctx, zombie))
		k.find(retrysafe.Abandoned, "k")
		k.complete(l, "answer", keepLonger)
		k.lost("Release", k.store.Release(k.ctx, zombie))
		k.replays("k", "answer")
	}},
	{"releases-with-steps", "with saved steps a release frees the key for the same request alone", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "a", "1")
		k.release(l)
		equal(k, "state", k.find(retrysafe.InFlight, "k", anotherRequest).State, retrysafe.Released)
		k.find(retrysafe.InFlight, "k", anotherRequest, takingOver)
		k.find(retrysafe.InFlight, "k", forRequest(""))
		c := k.acquire("k")
		k.grows(l.Fence, c.Lease.Fence)
		k.allLost(l)
	}},
	{"releases-with-steps-at-once", "a release with saved steps needs no waiting for the lease to end", func(k *kit) {
		l := k.take("k", lasting(time.Hour))
		k.checkpoint(l, "a", "1")
		k.release(l)
		second := k.take("k")
		k.find(retrysafe.InFlight, "k")
		k.complete(second, "answer", keepLonger)
	}},
	{
		"releases-with-steps-again",
		"a repeated release with steps returns nil, whichever attempt released, and adds nothing", func(k *kit) {
			zombie := k.abandon("k")
			l := k.take("k", takingOver)
			k.checkpoint(l, "a", "1")
			k.release(l)
			k.age(time.Hour)
			k.release(l)
			k.release(zombie)
			r := k.find(retrysafe.InFlight, "k", anotherRequest)
			k.near("KeyLeft", r.KeyLeft, keyTime-time.Hour)
			k.lost("Extend", k.store.Extend(k.ctx, l, time.Hour))
			k.lost("Checkpoint", k.store.Checkpoint(k.ctx, l, step("b", "2")))
		},
	},
	{
		"releases-with-steps-for-a-time",
		"once Keep.Key has passed since the release, the key is free for any request", func(k *kit) {
			l := k.take("k")
			k.checkpoint(l, "a", "1")
			k.age(leaseTime + time.Hour)
			k.release(l)
			k.age(keyTime - slack)
			k.find(retrysafe.InFlight, "k", anotherRequest)
			k.age(past)
			c := k.acquire("k", anotherRequest)
			equal(k, "attempt", c.Record.Attempt, 1)
			k.steps(c.Record.Steps)
		},
	},
}
