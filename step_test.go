package retrysafe_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

type receipt struct {
	ID     string
	Amount int
}

// checkout runs two steps and counts how often each has run.
type checkout struct {
	reserved, charged int
	childKeys         []string
	crash             bool // between charge and the end
}

func (c *checkout) work(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
	_, err := retrysafe.Step(ctx, "reserve", func(_ context.Context, childKey string) (string, error) {
		c.reserved++
		c.childKeys = append(c.childKeys, childKey)
		return "stock-7", nil
	})
	if err != nil {
		return retrysafe.Result{}, err
	}
	r, err := retrysafe.Step(ctx, "charge", func(_ context.Context, childKey string) (receipt, error) {
		c.charged++
		c.childKeys = append(c.childKeys, childKey)
		return receipt{"ch_1", 4200}, nil
	})
	switch {
	case err != nil:
		return retrysafe.Result{}, err
	case c.crash:
		c.crash = false
		return retrysafe.Result{}, retrysafe.Unknown(errors.New("cut off"))
	}
	return retrysafe.Result{Body: []byte(r.ID)}, nil
}

// Seen to fail with saveStep's checkpoint taken out: each step ran twice.
func TestStepsAreNotRepeatedAfterTakeOver(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		c := &checkout{crash: true}
		if _, err := k.guard.Do(k.ctx, pay(), c.work); !errors.Is(err, retrysafe.ErrAbandoned) {
			k.Fatalf("Do = %v", err)
		}
		k.wantAnswer(pay(), c.work, "ch_1", false)
		if c.reserved != 1 || c.charged != 1 {
			k.Errorf("reserved %d, charged %d times", c.reserved, c.charged)
		}
	})
}

func TestReleaseAfterAStepResumesForTheSameRequest(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		c := &checkout{}
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			c.work(ctx, a)
			return retrysafe.Result{}, retrysafe.Retryable(errors.New("mailer is busy"))
		})
		k.wantRefusal(request("pay-1", "raw1:b"), retrysafe.ErrMismatch)
		k.wantAnswer(pay(), c.work, "ch_1", false)
		if c.reserved != 1 || c.charged != 1 {
			k.Errorf("reserved %d, charged %d times", c.reserved, c.charged)
		}
	})
}

func TestUnfinishedStepRunsAgainWithTheSameChildKey(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		var keys []string
		work := func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			if _, err := retrysafe.Step(ctx, "id", func(context.Context, string) (any, error) {
				return int64(1)<<60 + 1, nil
			}); err == nil || !strings.Contains(err.Error(), "is an interface") {
				k.Errorf("a type that loses digits: %v", err)
			}
			_, err := retrysafe.Step(ctx, "charge", func(_ context.Context, childKey string) (int, error) {
				keys = append(keys, childKey)
				if len(keys) == 1 {
					return 0, retrysafe.Unknown(errors.New("no answer"))
				}
				return 1, nil
			})
			return retrysafe.Result{}, err
		}
		k.guard.Do(k.ctx, pay(), work)
		k.guard.Do(k.ctx, pay(), work)
		if len(keys) != 2 || keys[0] != keys[1] || keys[0] != pay().Key.Child("charge") {
			k.Errorf("child keys %v", keys)
		}
	})
}

// Seen to fail with the length of the name not looked at in Step: the step ran.
func TestStepSaysWhatItCannotDo(t *testing.T) {
	one := func(context.Context, string) (string, error) { return strings.Repeat("x", 20), nil }
	if _, err := retrysafe.Step(t.Context(), "s", one); !errors.Is(err, retrysafe.ErrNoAttempt) {
		t.Errorf("outside of an attempt: %v", err)
	}
	inAttempt := func(p retrysafe.Policy, test func(k *kit, ctx context.Context)) {
		bubble(t, p, func(k *kit) {
			k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
				test(k, ctx)
				return retrysafe.Result{}, nil
			})
		})
	}
	inAttempt(retrysafe.Policy{MaxResult: 10}, func(k *kit, ctx context.Context) {
		if _, err := retrysafe.Step(ctx, "s", one); err == nil || !strings.Contains(err.Error(), "limit") {
			k.Errorf("too large: %v", err)
		}
	})
	inAttempt(retrysafe.Policy{}, func(k *kit, ctx context.Context) {
		_, err := retrysafe.Step(ctx, "s", func(context.Context, string) (chan int, error) { return nil, nil })
		if err == nil || !strings.Contains(err.Error(), "encode") {
			k.Errorf("not encodable: %v", err)
		}
	})
	inAttempt(retrysafe.Policy{}, func(k *kit, ctx context.Context) {
		_, err := retrysafe.Step(ctx, strings.Repeat("n", 2049), func(context.Context, string) (int, error) {
			k.Error("a step ran whose name is too long to be saved")
			return 0, nil
		})
		if err == nil || !strings.Contains(err.Error(), "2048") {
			k.Errorf("a long name: %v", err)
		}
	})
}

func TestStepOutlastsAStoreHiccup(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		c := &checkout{}
		fails := 2
		k.store.on("checkpoint", func() (bool, error) {
			if fails--; fails >= 0 {
				return false, errDown
			}
			return true, nil
		})
		k.wantAnswer(pay(), c.work, "ch_1", false)
	})
}

// Seen to fail with the class of checkpoint's error left terminal: the retry got the store's error for good.
func TestStepThatCannotBeSavedLeavesTheKeyAbandoned(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		c := &checkout{}
		k.store.down("checkpoint")
		if _, err := k.guard.Do(k.ctx, pay(), c.work); !errors.Is(err, retrysafe.ErrAbandoned) {
			k.Errorf("Do = %v", err)
		}
		k.store.up()
		k.wantAnswer(pay(), c.work, "ch_1", false)
		if c.reserved != 2 || c.childKeys[0] != c.childKeys[1] {
			k.Errorf("reserved %d times with keys %v", c.reserved, c.childKeys)
		}
	})
}

func TestGenericDo(t *testing.T) {
	bubble(t, retrysafe.Policy{MaxResult: 100}, func(k *kit) {
		charge := func(ctx context.Context, a *retrysafe.Attempt) (receipt, error) {
			k.ran.Add(1)
			return receipt{"ch_1", 4200}, nil
		}
		for range 2 {
			if r, err := retrysafe.Do(k.ctx, k.guard, pay(), charge); err != nil || r != (receipt{"ch_1", 4200}) {
				k.Errorf("Do = %v, %v", r, err)
			}
		}
		k.wantRuns(1)
		long := func(context.Context, *retrysafe.Attempt) (string, error) { return strings.Repeat("x", 200), nil }
		if s, err := retrysafe.Do(k.ctx, k.guard, request("long", ""), long); err != nil || len(s) != 200 {
			k.Errorf("the first caller got %d bytes, %v", len(s), err)
		}
		if _, err := retrysafe.Do(k.ctx, k.guard, request("long", ""), long); !errors.Is(err, retrysafe.ErrNotReplayable) {
			k.Errorf("the retry got %v", err)
		}
	})
}

func TestCompletionInsideTheWorksOwnTransaction(t *testing.T) {
	// inTx is what a store's InTx does, on memstore.
	inTx := func(k *kit, ctx context.Context, commit error) error {
		a, _ := retrysafe.AttemptFrom(ctx)
		return a.Control().CompleteIn(k.store, func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
			if commit != nil {
				return commit
			}
			return k.store.Complete(ctx, l, r, keep)
		})
	}
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		work := func(ctx context.Context, a *retrysafe.Attempt) (receipt, error) {
			k.ran.Add(1)
			r := receipt{"ch_1", 4200}
			if err := retrysafe.SetResult(ctx, r); err != nil {
				return r, err
			}
			if err := inTx(k, ctx, nil); err != nil {
				return r, err
			}
			if err := inTx(k, ctx, nil); !errors.Is(err, retrysafe.ErrLeaseLost) {
				k.Errorf("completing twice: %v", err)
			}
			return receipt{}, errors.New("too late to matter")
		}
		for range 2 {
			if r, err := retrysafe.Do(k.ctx, k.guard, pay(), work); err != nil || r.ID != "ch_1" {
				k.Errorf("Do = %v, %v", r, err)
			}
		}
		k.wantRuns(1)
		if n := k.store.count("complete"); n != 1 {
			k.Errorf("%d completions", n)
		}
	})
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			if err := inTx(k, ctx, nil); err == nil || !strings.Contains(err.Error(), "SetResult") {
				k.Errorf("without a result: %v", err)
			}
			retrysafe.SetResult(ctx, 1)
			a, _ := retrysafe.AttemptFrom(ctx)
			a.Control().RolledBack()
			if err := inTx(k, ctx, nil); err == nil || !strings.Contains(err.Error(), "SetResult") {
				k.Errorf("with the result of a transaction that was rolled back: %v", err)
			}
			retrysafe.SetResult(ctx, 1)
			return retrysafe.Result{}, inTx(k, ctx, retrysafe.Retryable(errors.New("serialization failure")))
		})
		k.wantAnswer(pay(), k.answer("second"), "second", false)
	})
}

// wrapper is a store around another one, which says so.
type wrapper struct{ retrysafe.Store }

func (w wrapper) Unwrap() retrysafe.Store { return w.Store }

// router is a store with several inside, of which has has the key that routed asks for.
type router struct {
	retrysafe.Store
	has retrysafe.Key
}

func (r router) StoreOf(k retrysafe.Key) retrysafe.Store {
	if k != r.has {
		return newFaulty()
	}
	return r.Store
}

// hooked is a store that cannot be compared, not even to itself.
type hooked struct {
	retrysafe.Store
	_ []func()
}

// A transaction of another store than the Guard's has no such attempt, which is a mistake in the program; the Guard's
// own may be wrapped, or one of several of which one has the key. Seen to fail with isStore taken out of CompleteIn, with
// Unwrap and with StoreOf not asked for, and with Comparable not asked for (a panic).
func TestCompleteInKnowsTheGuardsStore(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		for _, c := range []struct {
			name         string
			guard, asked retrysafe.Store
			other        bool
		}{
			{"the same", k.store, k.store, false},
			{"inside", wrapper{wrapper{k.store}}, k.store, false},
			{"another", k.store, newFaulty(), true},
			{"another inside", wrapper{k.store}, newFaulty(), true},
			{"one of several", wrapper{router{k.store, request("one of several", "").Key}}, k.store, false},
			{"one that has not the key", router{k.store, request("", "").Key}, k.store, true},
			{"not comparable", hooked{Store: k.store}, hooked{Store: k.store}, true},
		} {
			g := retrysafe.New(c.guard, retrysafe.Options{SweepEvery: -1})
			g.Do(k.ctx, request(c.name, ""), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
				retrysafe.SetResult(ctx, 1)
				err := a.Control().CompleteIn(c.asked, func(retrysafe.Lease, retrysafe.Result, retrysafe.Retention) error {
					return retrysafe.ErrLeaseLost
				})
				if !errors.Is(err, retrysafe.ErrLeaseLost) || strings.Contains(err.Error(), "another store") != c.other {
					k.Errorf("%s: %v", c.name, err)
				}
				return retrysafe.Result{}, nil
			})
		}
	})
}

// A panic behind the transaction does not take back what it has completed, and the observer is told of the end. Seen to
// fail with conclude asking for the saved result only after the error.
func TestPanicAfterTheTransaction(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		func() {
			defer func() { _ = recover() }()
			k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
				retrysafe.SetResult(ctx, "paid")
				err := a.Control().CompleteIn(k.store, func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
					return k.store.Complete(ctx, l, r, keep)
				})
				if err != nil {
					k.Error(err)
				}
				panic("boom")
			})
		}()
		if n := k.saw(retrysafe.WorkSucceeded); n != 1 {
			k.Errorf("told %d times of the end, want once", n)
		}
		k.wantAnswer(pay(), k.answer("second"), `"paid"`, true)
	})
}

// Steps inside of a transaction are its own: they are run once in it, and again in the next one if it was rolled back.
// Seen to fail with kept taken out of saveStep, and out of noteStep. Steps with another context are refused while it is
// open: seen to fail with inTx not looked at by noteStep. Steps of a Guard that is called inside are not its own: seen
// to fail with of not looked at by txStepsOf.
func TestStepsInTx(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		ran := map[string]int{}
		one := func(context.Context, string) (int, error) { return 1, nil }
		step := func(ctx context.Context, name string) {
			got, err := retrysafe.Step(ctx, name, func(context.Context, string) (int, error) {
				ran[name]++
				return ran[name], nil
			})
			if err != nil || got != ran[name] {
				k.Errorf("step %s: got %d, %v, want %d", name, got, err, ran[name])
			}
		}
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			step(ctx, "before")
			for range 2 {
				inside, steps, err := a.Control().BeginTx(ctx)
				if err != nil {
					k.Fatal(err)
				}
				step(inside, "inside")
				if _, err := retrysafe.Step(ctx, "outside", one); err == nil || !strings.Contains(err.Error(), "does not belong") {
					k.Errorf("a step with another context: %v", err)
				}
				if _, err := k.guard.Do(inside, request("another", ""),
					func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
						_, err := retrysafe.Step(ctx, "its own", one)
						return retrysafe.Result{}, err
					}); err != nil {
					k.Error(err)
				}
				for _, again := range []string{"before", "inside"} {
					if _, err := retrysafe.Step(inside, again, one); err == nil {
						k.Errorf("a second step %s ran", again)
					}
				}
				if s := steps(); len(s) != 1 || s[0].Name != "inside" {
					k.Errorf("the transaction has the steps %v", s)
				}
				a.Control().RolledBack()
				if _, err := retrysafe.Step(inside, "late", one); err == nil {
					k.Error("a step of a transaction that was rolled back ran")
				}
			}
			if s := a.Steps(); len(s) != 1 || s[0].Name != "before" {
				k.Errorf("the attempt has the steps %v", s)
			}
			return retrysafe.Result{}, nil
		})
		if ran["before"] != 1 || ran["inside"] != 2 {
			k.Errorf("ran %v", ran)
		}
		if n := k.store.count("checkpoint"); n != 2 { // one of them is the other key's
			k.Errorf("%d checkpoints, want 2", n)
		}
	})
}

// A transaction that completes the attempt inside of a step is refused: the step could not be saved. Seen to fail with
// StepFrom taken out of BeginTx.
func TestTransactionInsideAStepIsRefused(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			_, err := retrysafe.Step(ctx, "charge", func(ctx context.Context, _ string) (int, error) {
				_, _, err := a.Control().BeginTx(ctx)
				return 0, err
			})
			if err == nil || !strings.Contains(err.Error(), `inside of step "charge"`) {
				k.Errorf("got %v", err)
			}
			return retrysafe.Result{}, nil
		})
	})
}

// Two steps of one name are a mistake: both would have one child key and one saved result. Seen to fail with noteStep
// taken out of Step: the second one's effect was dropped without a word, and of two at once both ran.
func TestASecondStepOfOneNameIsRefused(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		corrected, ran := false, 0
		charge := func(context.Context, string) (int, error) { ran++; return ran, nil }
		work := func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			if _, err := retrysafe.Step(ctx, "charge", charge); err != nil {
				return retrysafe.Result{}, err
			}
			second := map[bool]string{true: "fee", false: "charge"}[corrected]
			n, err := retrysafe.Step(ctx, second, charge)
			return retrysafe.Result{Code: n}, err
		}
		_, err := k.guard.Do(k.ctx, pay(), work)
		if !errors.Is(err, retrysafe.ErrAbandoned) || !strings.Contains(err.Error(), `second step "charge"`) || ran != 1 {
			k.Errorf("Do = %v after %d runs", err, ran)
		}
		corrected = true // a later version goes on
		if out, err := k.guard.Do(k.ctx, pay(), work); err != nil || out.Result.Code != 2 {
			k.Errorf("Do = %+v, %v", out, err)
		}
	})
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			var refused atomic.Int64
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					_, err := retrysafe.Step(ctx, "charge", func(context.Context, string) (int, error) {
						k.ran.Add(1)
						time.Sleep(time.Second)
						return 1, nil
					})
					if err != nil {
						refused.Add(1)
					}
				})
			}
			both.Wait()
			if refused.Load() != 1 {
				k.Errorf("%d of two steps at once were refused", refused.Load())
			}
			return retrysafe.Result{}, nil
		})
		k.wantRuns(1)
	})
}

// A step whose function has failed may be tried again. Seen to fail with forgetStep taken out of Step.
func TestAFailedStepMayBeTriedAgain(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			for try := range 3 {
				n, err := retrysafe.Step(ctx, "charge", func(context.Context, string) (int, error) {
					if try < 2 {
						return 0, errDown
					}
					return 17, nil
				})
				if (err == nil) != (try == 2) || err == nil && n != 17 {
					k.Errorf("try %d: %d, %v", try, n, err)
				}
			}
			return retrysafe.Result{}, nil
		})
	})
}

// The effect of a step has happened, whatever became of its type since. Seen to fail with the error marked Terminal:
// the key was used up.
func TestAStepThatCannotBeDecodedIsResumedByCorrectedCode(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		c := &checkout{crash: true}
		k.guard.Do(k.ctx, pay(), c.work)
		_, err := k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			_, err := retrysafe.Step(ctx, "reserve", func(context.Context, string) (int, error) { return 1, nil })
			return retrysafe.Result{}, err
		})
		if !errors.Is(err, retrysafe.ErrAbandoned) || !strings.Contains(err.Error(), `"reserve" as int`) {
			k.Errorf("Do = %v", err)
		}
		k.wantAnswer(pay(), c.work, "ch_1", false)
		if c.reserved != 1 || c.charged != 1 {
			k.Errorf("reserved %d, charged %d times", c.reserved, c.charged)
		}
	})
}

// A step that was renamed while a key was pending runs again under its new name, which nothing can prevent. Seen to
// fail with reportUnused taken out of conclude, and with it called for work that has failed or was reconciled.
func TestAnUnusedSavedStepIsReported(t *testing.T) {
	step := retrysafe.StepResult{Name: "reserve", Data: []byte(`"stock-7"`)}
	rename := func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
		_, err := retrysafe.Step(ctx, "reservation", func(context.Context, string) (string, error) { return "stock-8", nil })
		return retrysafe.Result{}, err
	}
	failing := func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
		return retrysafe.Result{}, errors.New("declined")
	}
	reconciled := func(context.Context, *retrysafe.Attempt, retrysafe.Record) (*retrysafe.Result, error) {
		return &retrysafe.Result{}, nil
	}
	for _, c := range []struct {
		name   string
		policy retrysafe.AbandonedPolicy
		work   retrysafe.Work
		told   int
	}{
		{"renamed", retrysafe.Rerun(), rename, 1},
		{"asked for", retrysafe.Rerun(), (&checkout{}).work, 0},
		{"failed before", retrysafe.Rerun(), failing, 0},
		{"reconciled", retrysafe.Reconcile(reconciled), rename, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, retrysafe.Policy{OnAbandoned: c.policy}, func(k *kit) {
				k.crash(step)
				k.guard.Do(k.ctx, pay(), c.work)
				if n := k.saw(retrysafe.StepUnused); n != c.told {
					k.Errorf("told %d times, want %d", n, c.told)
				}
			})
		})
	}
}

func TestContextOfAnAttempt(t *testing.T) {
	type key struct{}
	bubble(t, retrysafe.Policy{Timeout: time.Minute}, func(k *kit) {
		ctx := context.WithValue(k.ctx, key{}, "value")
		k.guard.Do(ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			child, stop := context.WithCancel(context.WithoutCancel(ctx))
			defer stop()
			if found, ok := retrysafe.AttemptFrom(child); !ok || found != a || child.Value(key{}) != "value" {
				k.Error("the attempt or the caller's values are lost in a derived context")
			}
			if id, err := retrysafe.ChildKey(child, "mail"); err != nil || id != pay().Key.Child("mail") {
				k.Errorf("ChildKey = %s, %v", id, err)
			}
			if ctx.Err() != nil || context.Cause(ctx) != nil {
				k.Error("the context has ended")
			}
			time.Sleep(time.Minute)
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				k.Errorf("after its deadline Err = %v, Cause = %v", ctx.Err(), context.Cause(ctx))
			}
			return retrysafe.Result{}, nil
		})
	})
	if _, err := retrysafe.ChildKey(t.Context(), "mail"); !errors.Is(err, retrysafe.ErrNoAttempt) {
		t.Errorf("outside of an attempt: %v", err)
	}
}

// Seen to fail with the comparison of attempts taken out of StepFrom: the work of another guard was in the step too.
func TestAContextKnowsItsStep(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		want := func(ctx context.Context, name string) {
			k.Helper()
			if got, ok := retrysafe.StepFrom(ctx); got != name || ok != (name != "") {
				k.Errorf("in step %q, %v, want %q", got, ok, name)
			}
		}
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			want(ctx, "")
			_, err := retrysafe.Step(ctx, "charge", func(ctx context.Context, _ string) (int, error) {
				want(ctx, "charge")
				want(context.WithoutCancel(ctx), "charge")
				k.guard.Do(ctx, request("pay-2", "raw1:b"),
					func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
						want(ctx, "")
						return retrysafe.Result{}, nil
					})
				return retrysafe.Step(ctx, "fee", func(ctx context.Context, _ string) (int, error) {
					want(ctx, "fee")
					return 1, nil
				})
			})
			want(ctx, "")
			return retrysafe.Result{}, err
		})
		want(k.ctx, "")
	})
}

// A struct of which JSON keeps nothing is refused before anything runs: every retry would get an empty one. Seen to fail
// without keepsContent in Step and in Do.
func TestTypesThatLoseTheirContentAreRefused(t *testing.T) {
	type hidden struct{ id string }
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		_, err := retrysafe.Do(k.ctx, k.guard, pay(), func(context.Context, *retrysafe.Attempt) (*hidden, error) {
			k.ran.Add(1)
			return &hidden{"ch_1"}, nil
		})
		if err == nil || !strings.Contains(err.Error(), "no exported field") {
			k.Errorf("Do = %v", err)
		}
		_, err = retrysafe.Do(k.ctx, k.guard, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (int, error) {
			if _, err := retrysafe.Step(ctx, "time", func(context.Context, string) (time.Time, error) {
				return time.Now(), nil
			}); err != nil {
				k.Errorf("a type that encodes itself: %v", err)
			}
			_, err := retrysafe.Step(ctx, "charge", func(context.Context, string) (hidden, error) {
				k.ran.Add(1)
				return hidden{"ch_1"}, nil
			})
			return 0, err
		})
		var failure *retrysafe.Failure
		if !errors.As(err, &failure) || !strings.Contains(failure.Message, "no exported field") {
			k.Errorf("Step = %v, want a final failure", err)
		}
		k.wantRuns(0)
	})
}
