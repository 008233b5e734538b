package retrysafe_test

import (
	"context"
	"errors"
	"strings"
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
		return a.CompleteIn(func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
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
			a.RolledBack()
			if err := inTx(k, ctx, nil); err == nil || !strings.Contains(err.Error(), "SetResult") {
				k.Errorf("with the result of a transaction that was rolled back: %v", err)
			}
			retrysafe.SetResult(ctx, 1)
			return retrysafe.Result{}, inTx(k, ctx, retrysafe.Retryable(errors.New("serialization failure")))
		})
		k.wantAnswer(pay(), k.answer("second"), "second", false)
	})
}

// A panic behind the transaction does not take back what it has completed, and the observer is told of the end. Seen to
// fail with panicked telling nothing then.
func TestPanicAfterTheTransaction(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		func() {
			defer func() { _ = recover() }()
			k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
				retrysafe.SetResult(ctx, "paid")
				err := a.CompleteIn(func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
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
// Seen to fail with kept taken out of saveStep, and out of Step.
func TestStepsInTx(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		ran := map[string]int{}
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
				inside, steps := retrysafe.StepsInTx(ctx)
				step(inside, "before")
				step(inside, "inside")
				step(inside, "inside")
				if s := steps(); len(s) != 1 || s[0].Name != "inside" {
					k.Errorf("the transaction has the steps %v", s)
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
		if n := k.store.count("checkpoint"); n != 1 {
			k.Errorf("%d checkpoints, want 1", n)
		}
	})
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
				k.guard.Do(ctx, request("pay-2", "raw1:b"), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
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
