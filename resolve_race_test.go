package retrysafe_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// wantNot checks that Resolve refuses with reason and changes nothing, and returns the error's text.
func (k *kit) wantNot(r retrysafe.Resolution, reason error) string {
	k.Helper()
	digest := pay().Key.Digest()
	before, _ := k.store.Inspect(k.ctx, digest)
	_, err := k.guard.Resolve(k.ctx, digest, r)
	if !errors.Is(err, reason) {
		k.Fatalf("Resolve = %v, want %v", err, reason)
	}
	after, _ := k.store.Inspect(k.ctx, digest)
	if len(before) != len(after) || len(after) > 0 &&
		(before[0].Fence != after[0].Fence || before[0].State != after[0].State) {
		k.Errorf("Resolve failed with %v and changed %+v to %+v", err, before, after)
	}
	return err.Error()
}

// A person may release the key of an attempt whose work cannot take effect any more without its lease, and only that. A
// heartbeat that renews the lease meanwhile wins.
//
// Seen to fail with each of the conditions taken out of Resolve, and with endLease not called.
func TestResolveEndsALease(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		lease := k.crash(retrysafe.StepResult{Name: "reserve", Data: []byte(`"r-1"`)})
		renew := func() (bool, error) { return true, k.store.Extend(k.ctx, lease, time.Minute) }
		if _, err := renew(); err != nil {
			k.Fatal(err)
		}
		release, fail := decision(retrysafe.ResolveRelease), decision(retrysafe.ResolveFail)
		k.wantNot(release, retrysafe.ErrNotAbandoned)
		release.EndLease = func(retrysafe.Record) bool { return false }
		k.wantNot(release, retrysafe.ErrNotAbandoned)
		release.EndLease = func(r retrysafe.Record) bool { return r.Fence == lease.Fence }
		fail.EndLease = release.EndLease
		k.wantNot(fail, retrysafe.ErrNotAbandoned)
		k.store.on("claim", renew)
		k.wantNot(release, retrysafe.ErrNotAbandoned)
		k.store.up()
		dry := release
		dry.DryRun = true
		if found := k.resolve(dry); found.LeaseLeft != time.Minute {
			k.Errorf("after the dry run the lease runs for %v", found.LeaseLeft)
		}
		k.wantRefusal(pay(), retrysafe.ErrInFlight)
		k.wantRecord(k.resolve(release), retrysafe.Released)
		err := k.store.Complete(k.ctx, lease, retrysafe.Result{}, retrysafe.Retention{})
		if !errors.Is(err, retrysafe.ErrLeaseLost) {
			k.Errorf("the ended attempt completes: %v", err)
		}
		k.wantAnswer(pay(), k.answer("paid"), "paid", false)
		k.wantRuns(1)
	})
}

// Seen to fail with the look at State and LeaseLeft taken out of Resolve (the key was then found taken by the claim,
// and the dry run said nothing).
func TestResolveRefuses(t *testing.T) {
	complete := decision(retrysafe.ResolveComplete)
	dry := complete
	dry.DryRun = true
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.wantNot(complete, retrysafe.ErrKeyUnknown)
		_, err := k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			for _, r := range []retrysafe.Resolution{complete, dry} {
				if text := k.wantNot(r, retrysafe.ErrNotAbandoned); !strings.Contains(text, "attempt 1") ||
					!strings.Contains(text, "30s") {
					k.Errorf("the error does not say who works how long: %s", text)
				}
			}
			return k.answer("paid")(ctx, a)
		})
		if err != nil {
			k.Fatal(err)
		}
		for _, r := range []retrysafe.Resolution{complete, dry} {
			if text := k.wantNot(r, retrysafe.ErrNotAbandoned); !strings.Contains(text, "succeeded") {
				k.Errorf("the error does not say how it ended: %s", text)
			}
		}
		k.wantAnswer(pay(), k.answer("must not run"), "paid", true)
	})
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.crash(retrysafe.StepResult{Name: "a"})
		k.resolve(decision(retrysafe.ResolveRelease))
		k.wantNot(complete, retrysafe.ErrNotAbandoned)
	})
}

func TestResolveChecksWhatIsDecided(t *testing.T) {
	for name, change := range map[string]func(r *retrysafe.Resolution){
		"no action":       func(r *retrysafe.Resolution) { r.Action = "" },
		"unknown action":  func(r *retrysafe.Resolution) { r.Action = "forget" },
		"purge":           func(r *retrysafe.Resolution) { r.Action = retrysafe.ResolvePurge },
		"no reason":       func(r *retrysafe.Resolution) { r.Reason = "" },
		"long reason":     func(r *retrysafe.Resolution) { r.Reason = strings.Repeat("x", retrysafe.MaxReasonBytes+1) },
		"long name":       func(r *retrysafe.Resolution) { r.By = strings.Repeat("x", retrysafe.MaxByBytes+1) },
		"not UTF-8":       func(r *retrysafe.Resolution) { r.Reason = "\xff" },
		"too large":       func(r *retrysafe.Resolution) { r.Result.Body = make([]byte, 1<<20+1) },
		"released answer": func(r *retrysafe.Resolution) { r.Action = retrysafe.ResolveRelease },
	} {
		bubble(t, retrysafe.Policy{}, func(k *kit) {
			k.crash()
			r := decision(retrysafe.ResolveComplete)
			change(&r)
			if _, err := k.guard.Resolve(k.ctx, pay().Key.Digest(), r); !errors.Is(err, retrysafe.ErrInvalidResolution) {
				k.Errorf("%s: Resolve = %v, want ErrInvalidResolution", name, err)
			}
			k.wantRefusal(pay(), retrysafe.ErrAbandoned)
		})
	}
}

func TestResolveDryRun(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		first := k.crash()
		r := decision(retrysafe.ResolveComplete)
		r.DryRun = true
		if known := k.resolve(r); known.State != retrysafe.Pending || known.Fence != first.Fence {
			k.Errorf("the dry run returned %+v", known)
		}
		known := k.wantRecord(k.resolve(r), retrysafe.Pending)
		k.wantTrail(known)
		k.wantRefusal(pay(), retrysafe.ErrAbandoned)
		if k.saw(retrysafe.KeyResolved) != 0 {
			k.Error("the observer was told of a dry run")
		}
	})
}

// bare is a store with the five methods alone.
type bare struct{ retrysafe.Store }

func TestResolveNeedsAnInspector(t *testing.T) {
	k := newKit(t, retrysafe.Policy{})
	g := retrysafe.New(bare{k.store}, retrysafe.Options{})
	if _, err := g.Resolve(k.ctx, pay().Key.Digest(), decision(retrysafe.ResolveFail)); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Errorf("Resolve = %v, want ErrUnsupported", err)
	}
	if err := g.Shutdown(k.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Resolve(k.ctx, pay().Key.Digest(), decision(retrysafe.ResolveFail)); !errors.Is(err,
		retrysafe.ErrShutdown) {
		t.Errorf("Resolve = %v, want ErrShutdown", err)
	}
}

// between runs f before the claim that follows.
func (k *kit) between(f func()) {
	var once sync.Once
	k.store.on("claim", func() (bool, error) {
		once.Do(f)
		return true, nil
	})
}

// A record that is another one by the time of the claim, or whose key is taken, is left as it is. Seen to fail with the
// comparison of FirstFence taken out (the new key got the answer of the old one), with that of Attempt (a key that
// another person had released was completed), and with releasedAt taken out of restore (it was abandoned again).
func TestResolveWhatHasChangedMeanwhile(t *testing.T) {
	complete := decision(retrysafe.ResolveComplete)
	bubble(t, retrysafe.Policy{}, func(k *kit) { // it expires
		k.crash()
		k.between(func() { time.Sleep(25 * time.Hour) })
		k.wantGone(complete)
		k.wantAnswer(pay(), k.answer("paid"), "paid", false)
	})
	bubble(t, retrysafe.Policy{}, func(k *kit) { // … and the key is abandoned again, by another request
		k.crash()
		k.between(func() {
			time.Sleep(25 * time.Hour)
			other := retrysafe.New(k.store.Store, retrysafe.Options{})
			if _, err := other.Do(k.ctx, pay(), k.failing(retrysafe.Unknown(errDown))); !errors.Is(err, retrysafe.ErrAbandoned) {
				k.Error(err)
			}
			if err := other.Shutdown(k.ctx); err != nil {
				k.Error(err)
			}
		})
		k.wantGone(complete)
		k.wantRefusal(pay(), retrysafe.ErrAbandoned)
	})
	bubble(t, retrysafe.Policy{}, func(k *kit) { // the zombie completes
		zombie := k.crash()
		k.between(func() {
			if err := k.store.Store.Complete(k.ctx, zombie, retrysafe.Result{Body: []byte("zombie")},
				retrysafe.Retention{}); err != nil {
				k.Error(err)
			}
		})
		k.wantGone(complete)
		k.wantAnswer(pay(), k.answer("must not run"), "zombie", true)
	})
	bubble(t, retrysafe.Policy{}, func(k *kit) { // the zombie says that nothing happened
		zombie := k.crash()
		k.between(func() {
			if err := k.store.Store.Release(k.ctx, zombie); err != nil {
				k.Error(err)
			}
		})
		k.wantGone(complete)
		k.wantAnswer(pay(), k.answer("paid"), "paid", false)
	})
	bubble(t, retrysafe.Policy{}, func(k *kit) { // another person releases
		k.crash()
		other := retrysafe.New(k.store.Store, retrysafe.Options{})
		k.between(func() {
			if _, err := other.Resolve(k.ctx, pay().Key.Digest(), decision(retrysafe.ResolveRelease)); err != nil {
				k.Error(err)
			}
		})
		k.wantGone(complete)
		k.wantAnswer(pay(), k.answer("paid"), "paid", false)
	})
}

// However many persons come too late, a key that was released stays released, and the trail shows the decision only.
// Seen to fail with the entry leftReleased taken out of restore (the second one that was too late abandoned the key),
// and with Trail showing it.
func TestReleasedKeyStaysReleased(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.crash()
		digest, first := pay().Key.Digest(), retrysafe.New(k.store.Store, retrysafe.Options{})
		late := newFaulty()
		late.Store = k.store.Store
		late.on("claim", func() (bool, error) {
			if _, err := first.Resolve(k.ctx, digest, decision(retrysafe.ResolveRelease)); err != nil {
				k.Error(err)
			}
			late.up()
			return true, nil
		})
		k.between(func() {
			second := retrysafe.New(late, retrysafe.Options{})
			if _, err := second.Resolve(k.ctx, digest, decision(retrysafe.ResolveFail)); !errors.Is(err,
				retrysafe.ErrNotAbandoned) {
				k.Errorf("the second: %v", err)
			}
		})
		k.wantGone(decision(retrysafe.ResolveComplete))
		found, err := k.store.Inspect(k.ctx, digest)
		if err != nil || len(found) != 1 || found[0].State != retrysafe.Released || found[0].Attempt != 4 {
			k.Fatalf("%+v, %v", found, err)
		}
		if trail := found[0].Trail(); len(trail) != 1 || trail[0].Action != retrysafe.ResolveRelease || trail[0].Unfinished {
			k.Errorf("the trail is %+v", trail)
		}
		k.wantAnswer(pay(), k.answer("paid"), "paid", false)
	})
}

// wantGone checks that Resolve finds the key changed.
func (k *kit) wantGone(r retrysafe.Resolution) {
	k.Helper()
	if _, err := k.guard.Resolve(k.ctx, pay().Key.Digest(), r); !errors.Is(err, retrysafe.ErrNotAbandoned) {
		k.Errorf("Resolve = %v, want ErrNotAbandoned", err)
	}
	k.store.up()
}

// Of persons who decide at once exactly one is told that it was done, and every retry gets that decision. Real
// goroutines: no bubble. Seen to fail with the comparison of Attempt taken out of resolve.
func TestResolveAtOnce(t *testing.T) {
	for range 200 {
		k := newKit(t, retrysafe.Policy{})
		abandon(k)
		const persons = 4
		actions := []retrysafe.ResolveAction{
			retrysafe.ResolveComplete, retrysafe.ResolveFail,
			retrysafe.ResolveRelease, retrysafe.ResolveRelease,
		}
		var all sync.WaitGroup
		won := make([]error, persons)
		for i := range persons {
			all.Go(func() { _, won[i] = k.guard.Resolve(k.ctx, pay().Key.Digest(), decision(actions[i])) })
		}
		all.Wait()
		winner := -1
		for i, err := range won {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("%s and %s both won", actions[winner], actions[i])
			case err == nil:
				winner = i
			case !errors.Is(err, retrysafe.ErrNotAbandoned):
				t.Fatal(err)
			}
		}
		if winner < 0 {
			t.Fatalf("no decision won: %v", won)
		}
		want := map[retrysafe.ResolveAction]retrysafe.State{
			"complete": retrysafe.Succeeded, "fail": retrysafe.Failed, "release": retrysafe.Released,
		}[actions[winner]]
		found, err := k.store.Inspect(k.ctx, pay().Key.Digest())
		if err != nil || len(found) != 1 || found[0].State != want {
			t.Fatalf("after %s: %+v, %v", actions[winner], found, err)
		}
	}
}

// abandon leaves key pay-1 abandoned at once.
func abandon(k *kit) {
	k.Helper()
	if _, err := k.guard.Do(k.ctx, pay(), k.failing(retrysafe.Unknown(errDown))); !errors.Is(err, retrysafe.ErrAbandoned) {
		k.Fatalf("Do = %v", err)
	}
	k.ran.Store(0)
}

// While a person's claim is being carried out, an attempt under Rerun finds it in flight, and callers who wait get the
// decision at once. Seen to fail with leaseRuns taken out of memstore's verdict.
func TestResolveIsInFlight(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		k.crash()
		patient := k.guard.With(retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Minute)})
		answered := make(chan time.Duration, 1)
		k.store.on("checkpoint", func() (bool, error) {
			k.wantRefusal(pay(), retrysafe.ErrInFlight)
			began := time.Now()
			go func() {
				out, err := patient.Do(k.ctx, pay(), k.answer("must not run"))
				if err != nil || string(out.Result.Body) != "paid" {
					k.Errorf("Do = %q, %v", out.Result.Body, err)
				}
				answered <- time.Since(began)
			}()
			time.Sleep(20 * time.Millisecond)
			return true, nil
		})
		k.resolve(decision(retrysafe.ResolveComplete))
		if took := <-answered; took > 50*time.Millisecond {
			k.Errorf("who waited was told after %v", took)
		}
		k.wantRuns(0)
	})
}

// A person whose process stands still past its lease is fenced off like any attempt, and the trail says that the
// decision was not carried out. Seen to fail with Unfinished taken out of Trail.
func TestResolveIsFenced(t *testing.T) {
	for _, at := range []string{"checkpoint", "complete"} {
		bubble(t, retrysafe.Policy{}, func(k *kit) {
			k.crash()
			k.store.on(at, func() (bool, error) {
				k.store.up()
				time.Sleep(31 * time.Second)
				other := retrysafe.New(k.store.Store, retrysafe.Options{Policy: retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}})
				if _, err := other.Do(k.ctx, pay(), k.answer("ran")); err != nil {
					k.Error(err)
				}
				return true, other.Shutdown(k.ctx)
			})
			k.wantGone(decision(retrysafe.ResolveComplete))
			k.wantAnswer(pay(), k.answer("must not run"), "ran", true)
			k.wantRuns(1)
			if known, err := k.store.Inspect(k.ctx, pay().Key.Digest()); at == "complete" {
				if trail := known[0].Trail(); err != nil || len(trail) != 1 || !trail[0].Unfinished {
					k.Errorf("the trail is %+v, %v; want one decision that was not carried out", trail, err)
				}
			}
		})
	}
}

// An attempt that comes back after the decision changes nothing, however it ends: its caller is refused with
// ErrLeaseLost, and its retries and all others get the decision. Seen to fail with the comparison of leases taken out
// of memstore, and with it taken out of its Release alone.
func TestZombieAfterResolve(t *testing.T) {
	for _, action := range []retrysafe.ResolveAction{
		retrysafe.ResolveComplete, retrysafe.ResolveFail,
		retrysafe.ResolveRelease,
	} {
		for name, end := range map[string]error{
			"completes": nil, "fails": errDown,
			"releases": retrysafe.Retryable(errDown),
		} {
			t.Run(string(action)+"/"+name, func(t *testing.T) { zombieAfter(t, action, end) })
		}
	}
}

func zombieAfter(t *testing.T, action retrysafe.ResolveAction, end error) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		paused, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			_, err := k.guard.Do(k.ctx, pay(), func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
				k.store.down("extend") // as if the process stood still
				close(paused)
				<-goOn
				return retrysafe.Result{Body: []byte("zombie")}, end
			})
			ended <- err
		}()
		<-paused
		time.Sleep(time.Minute)
		other := retrysafe.New(k.store.Store, retrysafe.Options{})
		if _, err := other.Resolve(k.ctx, pay().Key.Digest(), decision(action)); err != nil {
			k.Fatal(err)
		}
		k.store.up()
		close(goOn)
		want := retrysafe.ErrLeaseLost
		if action == retrysafe.ResolveRelease && end != nil && end != errDown {
			want = errDown // nothing happened, and no attempt has the key: its report is right
		}
		if err := <-ended; !errors.Is(err, want) {
			k.Errorf("the zombie's caller got %v, want %v", err, want)
		}
		for i := range 3 {
			out, err := k.guard.Do(k.ctx, pay(), k.answer("ran"))
			var f *retrysafe.Failure
			switch {
			case action == retrysafe.ResolveFail:
				if !errors.As(err, &f) || !f.Resolved {
					k.Errorf("retry %d: %v, want a resolved failure", i, err)
				}
			case action == retrysafe.ResolveComplete && string(out.Result.Body) == "paid" && err == nil:
			case action == retrysafe.ResolveRelease && string(out.Result.Body) == "ran" && err == nil:
			default:
				k.Errorf("retry %d after %s: %q, %v", i, action, out.Result.Body, err)
			}
		}
		if err := other.Shutdown(k.ctx); err != nil {
			k.Error(err)
		}
	})
}
