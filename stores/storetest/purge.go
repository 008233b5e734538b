package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
)

// trail is a step that Purge keeps.
func trail(name, data string) retrysafe.StepResult { return step(retrysafe.AuditStepPrefix+name, data) }

// purgeBy purges the newest record of key k, as people see it.
func (k *kit) purgeBy(s retrysafe.StepResult) error {
	k.Helper()
	found, err := k.inspector().Inspect(k.ctx, params("k").Key.Digest())
	k.must("Inspect", err)
	return k.purgeOf(append(found, retrysafe.Record{Fence: 1})[0].Fence, s)
}

// purgeOf purges key k as it was under the fence.
func (k *kit) purgeOf(fence int64, s retrysafe.StepResult) error {
	return k.store.(retrysafe.Purger).Purge(k.ctx, params("k").Key.Digest(), fence, s)
}

func (k *kit) purge(name string) {
	k.Helper()
	k.must("Purge", k.purgeBy(trail(name, "by ada")))
}

// notPurged expects Purge to refuse.
func (k *kit) notPurged(want error) {
	k.Helper()
	if err := k.purgeBy(trail("1", "by ada")); !errors.Is(err, want) {
		k.Errorf("Purge: got %v, want %v", err, want)
	}
}

// finishWithSteps completes key k after a step of the work and one of the trail.
func (k *kit) finishWithSteps(body string, keep retrysafe.Retention) retrysafe.Lease {
	k.Helper()
	l := k.take("k")
	k.checkpoint(l, "a", "1")
	k.must("Checkpoint", k.store.Checkpoint(k.ctx, l, trail("0", "by eve")))
	k.complete(l, body, keep)
	return l
}

// Seen to fail in memstore: purge-late with the comparisons of the fence taken out of Purge.
var purgerRules = []rule{
	{
		"purge-drops-the-answer", "Purge drops Meta, Body and the work's steps, keeps the trail, and adds to it",
		func(k *kit) {
			l := k.finishWithSteps("answer", keepAll)
			k.finish("other", "answer", keepAll)
			k.purge("1")
			r := k.inspect("k", 1)[0]
			equal(k, "same result", sameResult(r.Result, retrysafe.Result{Code: 201}), true)
			k.steps(r.Steps, retrysafe.AuditStepPrefix+"0=by eve", retrysafe.AuditStepPrefix+"1=by ada")
			equal(k, "state", r.State, retrysafe.Succeeded)
			equal(k, "fence", r.Fence, l.Fence)
			equal(k, "ReplayLeft", r.ReplayLeft, 0)
			k.replays("other", "answer")
		},
	},
	{
		"purge-leaves-the-key-taken", "after Purge claims are told Done without an answer until Key has passed",
		func(k *kit) {
			k.finish("k", "answer", keepAll)
			k.age(10 * time.Minute)
			k.purge("1")
			r := k.find(retrysafe.Done, "k", anotherRequest)
			equal(k, "same result", sameResult(r.Result, retrysafe.Result{Code: 201}), true)
			equal(k, "fingerprint", r.Fingerprint, "raw1:one")
			equal(k, "ReplayLeft", r.ReplayLeft, 0)
			k.near("KeyLeft", r.KeyLeft, keyTime-10*time.Minute)
			k.near("AuditLeft", r.AuditLeft, auditTime-10*time.Minute)
			k.age(keyTime - 10*time.Minute + slack)
			equal(k, "attempt", k.acquire("k").Record.Attempt, 1)
		},
	},
	{"purge-again", "Purge may be repeated: a step whose name is saved is not added again", func(k *kit) {
		k.finish("k", "answer", keepAll)
		k.purge("2")
		k.must("Purge", k.purgeBy(trail("2", "another text")))
		k.purge("1")
		k.steps(k.inspect("k", 1)[0].Steps, retrysafe.AuditStepPrefix+"2=by ada", retrysafe.AuditStepPrefix+"1=by ada")
	}},
	{"purge-copies", "the step that Purge adds is a copy", func(k *kit) {
		k.finish("k", "answer", keepAll)
		s := trail("1", "by ada")
		k.must("Purge", k.purgeBy(s))
		clear(s.Data)
		k.steps(k.inspect("k", 1)[0].Steps, retrysafe.AuditStepPrefix+"1=by ada")
	}},
	{"purge-after-replay", "an answer that is kept for people only is dropped too", func(k *kit) {
		k.finish("k", "answer", keepAll)
		k.age(replayTime + slack)
		equal(k, "body", string(k.inspect("k", 1)[0].Result.Body), "answer")
		k.purge("1")
		equal(k, "body", string(k.inspect("k", 1)[0].Result.Body), "")
		k.find(retrysafe.Done, "k")
	}},
	{"purge-after-key", "an answer that is kept for people is dropped although the key has become free", func(k *kit) {
		k.finish("k", "answer", keepForSupport)
		k.age(2 * time.Hour)
		k.purge("1")
		equal(k, "body", string(k.inspect("k", 1)[0].Result.Body), "")
	}},
	{
		"purge-generations", "Purge drops the answers of a key's older records too, and adds to the newest alone",
		func(k *kit) {
			for _, body := range []string{"first", "second", "third"} {
				k.finishWithSteps(body, keepForSupport)
				k.age(2 * time.Hour)
			}
			l := k.finish("k", "last", keepForSupport)
			k.purge("1")
			found := k.inspect("k", 4)
			equal(k, "fence", found[0].Fence, l.Fence)
			k.steps(found[0].Steps, retrysafe.AuditStepPrefix+"1=by ada")
			for _, r := range found[1:] {
				equal(k, "same result", sameResult(r.Result, retrysafe.Result{Code: 201}), true)
				k.steps(r.Steps, retrysafe.AuditStepPrefix+"0=by eve")
			}
			k.find(retrysafe.Done, "k")
		},
	},
	{"purge-of-what-is-left", "Purge drops what is kept for people after the key has become free", func(k *kit) {
		k.finish("k", "first", keepForSupport)
		k.age(2 * time.Hour)
		k.finish("k", "second", keepForSupport)
		k.age(2 * time.Hour)
		k.release(k.take("k"))
		k.purge("1")
		found := k.inspect("k", 2)
		k.steps(found[0].Steps, retrysafe.AuditStepPrefix+"1=by ada")
		equal(k, "bodies", string(found[0].Result.Body)+string(found[1].Result.Body), "")
		equal(k, "attempt", k.acquire("k").Record.Attempt, 1)
	}},
	{
		"purge-late", "a Purge under the fence of an earlier claim changes nothing, and returns ErrNotEnded",
		func(k *kit) {
			l := k.finishWithSteps("first", keepForSupport)
			k.age(2 * time.Hour)
			k.finishWithSteps("second", keepAll)
			if err := k.purgeOf(l.Fence, trail("1", "by ada")); !errors.Is(err, retrysafe.ErrNotEnded) {
				k.Errorf("Purge: got %v, want ErrNotEnded", err)
			}
			for i, body := range []string{"second", "first"} {
				r := k.inspect("k", 2)[i]
				equal(k, "body", string(r.Result.Body), body)
				k.steps(r.Steps, "a=1", retrysafe.AuditStepPrefix+"0=by eve")
			}
			k.replays("k", "second")
		},
	},
	{
		"purge-ended-only", "Purge changes nothing unless the newest record has ended, and returns ErrNotEnded",
		func(k *kit) {
			k.finishWithSteps("first", keepForSupport)
			k.age(2 * time.Hour)
			l := k.take("k")
			k.checkpoint(l, "b", "2")
			k.notPurged(retrysafe.ErrNotEnded)
			k.age(leaseTime + slack)
			k.notPurged(retrysafe.ErrNotEnded) // abandoned
			k.steps(k.find(retrysafe.Abandoned, "k").Steps, "b=2")
			k.release(l)
			k.notPurged(retrysafe.ErrNotEnded) // released
			found := k.inspect("k", 2)
			k.steps(found[0].Steps, "b=2")
			equal(k, "body", string(found[1].Result.Body), "first")
			k.steps(found[1].Steps, "a=1", retrysafe.AuditStepPrefix+"0=by eve")
		},
	},
	{"purge-nothing", "of a key without records, or whose records are past their retention, Purge returns " +
		"ErrKeyUnknown", func(k *kit) {
		k.notPurged(retrysafe.ErrKeyUnknown)
		k.finish("k", "answer", keepAll)
		k.age(auditTime + slack)
		k.notPurged(retrysafe.ErrKeyUnknown)
		l := k.acquire("k").Lease
		k.complete(l, "answer", keepForSupport)
		k.age(2 * time.Hour)
		k.release(k.take("k")) // the record that has ended is an older one now
		k.age(48 * time.Hour)
		k.notPurged(retrysafe.ErrKeyUnknown)
		equal(k, "attempt", k.acquire("k").Record.Attempt, 1)
	}},
	{"purge-and-sweep", "what is left after Purge is swept when its retention has passed", func(k *kit) {
		k.finishWithSteps("answer", keepAll)
		k.purge("1")
		k.sweepIfAble()
		k.age(keyTime - slack)
		k.sweepIfAble()
		k.find(retrysafe.Done, "k")
		k.age(auditTime)
		k.sweepIfAble()
		k.inspect("k", 0)
		stats, err := k.inspector().Stats(k.ctx)
		k.must("Stats", err)
		equal(k, "records", stats.Succeeded, 0)
		equal(k, "attempt", k.acquire("k").Record.Attempt, 1)
	}},
	{"purge-context", "a Purge whose context has ended fails with the context's error and changes nothing", func(k *kit) {
		l := k.finish("k", "answer", keepAll)
		ended, cancel := context.WithCancel(k.ctx)
		cancel()
		err := k.store.(retrysafe.Purger).Purge(ended, l.Key.Digest(), l.Fence, trail("1", "by ada"))
		k.refused("Purge", err)
		k.replays("k", "answer")
	}},
}
