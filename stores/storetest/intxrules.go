package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func txRules() []txRule {
	return slices.Concat(endRules(), onceRules(), lateRules(), misuseRules(), guardRules(), endedInsideRules(),
		doubtRules())
}

// endRules are about how f ends: its rows and the completion are committed together, or not at all.
func endRules() []txRule {
	return []txRule{
		{
			"intx-commits-both",
			"what f wrote and the completion are there together, for retries and for those who watch", func(k *txKit) {
				changed := k.watch("k")
				k.runs("k")
				k.done("k")
				k.rows(1)
				select {
				case <-changed:
				case <-time.After(wakeTime):
					k.Error("the caller of Watch was not woken")
				}
				if body, _, ok := k.inspect("k"); ok && body != `"answer"` {
					k.Errorf("Inspect shows %s, want the answer", body)
				}
			},
		},
		{
			"intx-error",
			"after an error of f, which InTx returns, nothing of f remains and nothing is completed", func(k *txKit) {
				err := k.releasing("k", writeThen(func(context.Context, func(string) error) error { return errOfWork }))
				if !errors.Is(err, errOfWork) {
					k.Errorf("InTx: got %v, want what f returned", err)
				}
				k.rows(0)
				k.runs("k")
			},
		},
		{
			"intx-panic",
			"after a panic of f nothing of it remains, nothing is completed, and the store goes on", func(k *txKit) {
				_, _ = k.do("k", func(ctx context.Context, _ *retrysafe.Attempt) error {
					defer func() { _ = recover() }()
					return k.store.InTx(ctx, writeThen(func(context.Context, func(string) error) error { panic("of f") }))
				})
				k.rows(0)
				k.runs("another")
			},
		},
		{
			"intx-other-store",
			"with a Guard on another store nothing of f remains, and the error names both", func(k *txKit) {
				k.guard = retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
				err := k.releasing("k", write)
				for _, want := range []string{"made with another store", "*memstore.Store", fmt.Sprintf("%T", k.store.Store)} {
					if err == nil || !strings.Contains(err.Error(), want) {
						k.Errorf("got %v, want it to say %q", err, want)
					}
				}
				k.rows(0)
			},
		},
	}
}

// onceRules are about attempts with more than one transaction, and about steps beside one.
func onceRules() []txRule {
	// again calls InTx a second time, and expects that f is not called.
	again := func(k *txKit, ctx context.Context) error {
		err := k.store.InTx(ctx, func(_ context.Context, exec func(string) error) error {
			k.Error("the function of a second InTx was called")
			return exec(insertRow)
		})
		if err == nil {
			k.Error("a second InTx has returned nil")
		}
		return err
	}
	return []txRule{
		{
			"intx-inside-intx",
			"InTx inside of InTx is refused before its function is called: the outer one decides", func(k *txKit) {
				for _, outside := range []bool{false, true} {
					_ = k.releasing("k", writeThen(func(ctx context.Context, _ func(string) error) error {
						if outside {
							a, _ := retrysafe.AttemptFrom(ctx)
							ctx = a // as the function of a caller does that captures its own context
						}
						_ = again(k, ctx)
						return errOfWork
					}))
					k.rows(0)
				}
				err := k.releasing("another", writeThen(func(ctx context.Context, _ func(string) error) error {
					_ = again(k, ctx)
					return nil
				}))
				if err != nil {
					k.Errorf("the outer InTx: %v", err)
				}
				k.rows(1)
				k.done("another")
			},
		},
		{
			"intx-twice",
			"InTx after one that has completed the attempt is refused before its function is called", func(k *txKit) {
				ran, err := k.do("k", func(ctx context.Context, _ *retrysafe.Attempt) error {
					if err := k.store.InTx(ctx, write); err != nil {
						return err
					}
					if err := again(k, ctx); !errors.Is(err, retrysafe.ErrLeaseLost) {
						k.Errorf("got %v, want ErrLeaseLost", err)
					}
					return nil
				})
				if !ran || err != nil {
					k.Errorf("ran %v, got %v; want the first transaction's answer", ran, err)
				}
				k.rows(1)
				k.done("k")
			},
		},
		{
			"intx-after-rollback",
			"InTx may be called again after an error or a panic of its function", func(k *txKit) {
				ran, err := k.do("k", func(ctx context.Context, _ *retrysafe.Attempt) error {
					fails := writeThen(func(context.Context, func(string) error) error { return errOfWork })
					if err := k.store.InTx(ctx, fails); !errors.Is(err, errOfWork) {
						k.Errorf("got %v, want what f returned", err)
					}
					func() {
						defer func() { _ = recover() }()
						_ = k.store.InTx(ctx, writeThen(func(context.Context, func(string) error) error { panic("of f") }))
					}()
					if err := retrysafe.SetResult(ctx, "answer"); err != nil {
						return err
					}
					return k.store.InTx(ctx, write)
				})
				if !ran || err != nil {
					k.Errorf("ran %v, got %v; want that the last transaction completes", ran, err)
				}
				k.rows(1)
				k.done("k")
			},
		},
		{
			"intx-step-outside",
			"a step that could not be saved with the transaction is refused before it runs: one with another context " +
				"while it is open, and any after it", func(k *txKit) {
				refused := func(ctx context.Context, name string) {
					if _, err := retrysafe.Step(ctx, name, func(context.Context, string) (int, error) {
						k.Errorf("the step %s was run", name)
						return 0, nil
					}); err == nil {
						k.Errorf("the step %s has returned nil", name)
					}
				}
				ran, err := k.do("k", func(ctx context.Context, _ *retrysafe.Attempt) error {
					outside := ctx
					err := k.store.InTx(ctx, writeThen(func(ctx context.Context, _ func(string) error) error {
						refused(outside, "with another context")
						return nil
					}))
					refused(ctx, "after InTx")
					return err
				})
				if !ran || err != nil {
					k.Errorf("ran %v, got %v; want that it completes", ran, err)
				}
				k.rows(1)
				k.done("k")
			},
		},
	}
}

// lateRules are about transactions that come too late: the lease is lost or has run out, or the attempt has ended.
func lateRules() []txRule {
	return []txRule{
		{
			"intx-waits",
			"InTx waits for a connection no longer than its context, and does not call f after that", func(k *txKit) {
				if k.store.Occupy == nil {
					return
				}
				_, _ = k.do("k", func(ctx context.Context, _ *retrysafe.Attempt) error {
					free := sync.OnceFunc(k.store.Occupy(k.T))
					defer free()
					late := time.AfterFunc(time.Minute, free)
					brief, cancel := context.WithTimeout(ctx, time.Millisecond)
					defer cancel()
					err := k.store.InTx(brief, func(context.Context, func(string) error) error {
						k.Error("f was called")
						return nil
					})
					switch {
					case !late.Stop():
						k.Error("InTx has waited until there was a connection")
					case !errors.Is(err, context.DeadlineExceeded):
						k.Errorf("InTx: got %v, want that the time is over", err)
					}
					return retrysafe.Retryable(err)
				})
				k.runs("k")
			},
		},
		{
			"intx-lease-lost",
			"if another attempt has the key, nothing of f remains and InTx returns ErrLeaseLost", func(k *txKit) {
				_, _ = k.do("k", func(ctx context.Context, a *retrysafe.Attempt) error {
					k.takeOver(ctx, a)
					err := k.store.InTx(ctx, write)
					if !errors.Is(err, retrysafe.ErrLeaseLost) || strings.Contains(err.Error(), "another store") {
						k.Errorf("InTx: got %v, want ErrLeaseLost", err)
					}
					return err
				})
				k.rows(0)
			},
		},
		{
			"intx-completed-already",
			"a completion that is there already does not count: nothing of f remains", func(k *txKit) {
				_, _ = k.do("k", func(ctx context.Context, a *retrysafe.Attempt) error {
					if err := k.store.Complete(ctx, a.Control().Lease(), retrysafe.Result{}, retrysafe.Retention{}); err != nil {
						k.Fatal(err)
					}
					err := k.store.InTx(ctx, write)
					if !errors.Is(err, retrysafe.ErrLeaseLost) {
						k.Errorf("InTx: got %v, want ErrLeaseLost", err)
					}
					return err
				})
				k.rows(0)
			},
		},
		{
			"intx-late",
			"an attempt whose lease has run out completes, unless another attempt has taken the key over", func(k *txKit) {
				ran, err := k.do("k", func(ctx context.Context, a *retrysafe.Attempt) error {
					if err := k.store.Extend(ctx, a.Control().Lease(), 0); err != nil {
						k.Fatal(err)
					}
					return k.store.InTx(ctx, write)
				})
				if !ran || err != nil {
					k.Errorf("got %v, want that it completes", err)
				}
				k.rows(1)
				k.done("k")
			},
		},
	}
}

// misuseRules are about steps, and about calls of InTx that cannot complete the key.
func misuseRules() []txRule {
	return []txRule{
		{
			"intx-steps",
			"a step inside the transaction is saved by it, or not at all; one before it is saved at once", func(k *txKit) {
				ran := map[string]int{}
				step := func(ctx context.Context, name string) error {
					_, err := retrysafe.Step(ctx, name, func(context.Context, string) (int, error) {
						ran[name]++
						return ran[name], nil
					})
					return err
				}
				for _, end := range []error{errOfWork, nil} {
					_, err := k.do("k", func(ctx context.Context, _ *retrysafe.Attempt) error {
						before := step(ctx, "before")
						return retrysafe.Retryable(errors.Join(before,
							k.store.InTx(ctx, func(ctx context.Context, _ func(string) error) error {
								return errors.Join(step(ctx, "inside"), end)
							})))
					})
					if (err == nil) != (end == nil) {
						k.Errorf("after %v: got %v", end, err)
					}
				}
				if ran["before"] != 1 || ran["inside"] != 2 {
					k.Errorf("the steps ran %v times; want the one before once, and the one inside twice", ran)
				}
				if _, steps, ok := k.inspect("k"); ok && fmt.Sprint(steps) != "[before inside]" {
					k.Errorf("Inspect shows the steps %v, want both", steps)
				}
			},
		},
		{
			"intx-no-attempt",
			"outside of an attempt InTx returns ErrNoAttempt and does not call f", func(k *txKit) {
				if err := k.store.InTx(k.Context(), write); !errors.Is(err, retrysafe.ErrNoAttempt) {
					k.Errorf("got %v, want ErrNoAttempt", err)
				}
				k.rows(0)
			},
		},
		{
			"intx-no-result",
			"without a result to save InTx fails, and nothing of f remains", func(k *txKit) {
				_ = k.releasing("k", func(ctx context.Context, exec func(string) error) error {
					if a, ok := retrysafe.AttemptFrom(ctx); ok {
						a.Control().Capture(nil)
					}
					return exec(insertRow)
				})
				k.rows(0)
				k.notDone("k")
			},
		},
		{
			"intx-ignored-error",
			"a failed statement whose error f ignores leaves both the rows and the completion, or neither", func(k *txKit) {
				err := k.releasing("k", writeThen(func(_ context.Context, exec func(string) error) error {
					_ = exec("INSERT INTO storetest_missing VALUES ('row')")
					return nil
				}))
				if err == nil {
					k.rows(1)
					k.done("k")
					return
				}
				k.rows(0)
				k.notDone("k")
			},
		},
	}
}

// guardRules are about what the Guard does after InTx, and about many callers at once.
func guardRules() []txRule {
	return []txRule{
		{
			"intx-forgets",
			"after an error of f, what the work has answered so far is taken back, so that it can answer anew", func(k *txKit) {
				taken := false
				_ = k.releasing("k", func(ctx context.Context, _ func(string) error) error {
					if a, ok := retrysafe.AttemptFrom(ctx); ok {
						a.Control().Capture(func() (retrysafe.Result, error) {
							taken = true
							return retrysafe.Result{}, nil
						})
					}
					return errOfWork
				})
				if !taken {
					k.Error("InTx has not called RolledBack")
				}
			},
		},
		{
			"intx-unprotected",
			"an attempt without protection commits what f wrote, and completes nothing", func(k *txKit) {
				policy := retrysafe.Policy{OnStoreError: retrysafe.FailOpen, Lease: 10 * time.Millisecond}
				k.guard = retrysafe.New(unclaimable{k.store.Store}, retrysafe.Options{Policy: policy})
				if ran, err := k.do("k", k.writeInTx); !ran || err != nil {
					k.Errorf("ran %v, got %v; want it to run", ran, err)
				}
				k.rows(1)
				k.guard = retrysafe.New(k.store.Store, retrysafe.Options{})
				k.runs("k")
			},
		},
		{
			"intx-too-large",
			"a result that the store will never take is saved without its content, with the rows", func(k *txKit) {
				size := k.store.TooLarge
				if size == 0 {
					return
				}
				k.guard = retrysafe.New(k.store.Store, retrysafe.Options{Policy: retrysafe.Policy{MaxResult: 2 * size}})
				_, err := k.do("k", func(ctx context.Context, a *retrysafe.Attempt) error {
					a.Control().Capture(func() (retrysafe.Result, error) {
						return retrysafe.Result{Body: make([]byte, size)}, nil
					})
					return k.store.InTx(ctx, write)
				})
				if err != nil {
					k.Errorf("got %v, want that it completes", err)
				}
				k.rows(1)
				ran, err := k.do("k", k.writeInTx)
				if ran || !errors.Is(err, retrysafe.ErrNotReplayable) {
					k.Errorf("ran %v, got %v; want that it is done, without an answer", ran, err)
				}
			},
		},
		{
			"intx-storm",
			"of many transactions under few keys each key's commits once, and no other caller sees an error", func(k *txKit) {
				const keys, callers = 8, 5
				policy := retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Minute)}
				k.guard = retrysafe.New(k.store.Store, retrysafe.Options{Policy: policy})
				together(keys*callers, func(i int) {
					if _, err := k.do(fmt.Sprint(i%keys), k.writeInTx); err != nil {
						k.Errorf("caller %d: %v", i, err)
					}
				})
				k.rows(keys)
			},
		},
	}
}

// endedInsideRules are about functions that end their own transaction by SQL, with each result.
func endedInsideRules() (rules []txRule) {
	for _, statements := range [][]string{
		{"ROLLBACK"},
		{"COMMIT"},
		{"ROLLBACK", "BEGIN"},
		{"COMMIT", "BEGIN"},
		{"ROLLBACK", insertRow},
		{"COMMIT", "BEGIN", insertRow},
	} {
		for _, result := range []error{nil, errOfWork} {
			rules = append(rules, endedInside(statements, result))
		}
	}
	return rules
}

// endedInside is the rule for a function that ends its transaction by SQL, and then returns something.
func endedInside(statements []string, result error) txRule {
	return txRule{
		fmt.Sprintf("intx-ended-inside/%s, then returns %v", strings.Join(statements, "; "), result),
		"if f has ended the transaction itself, nothing is completed, InTx returns an error, and the work does not " +
			"run again if " +
			"something was committed, whatever it says of that",
		func(k *txKit) {
			err := k.releasing("k", writeThen(func(_ context.Context, exec func(string) error) error {
				for _, s := range statements {
					if err := exec(s); errors.Is(err, errors.ErrUnsupported) {
						return err
					} else if err != nil {
						k.Fatalf("%s: %v", s, err)
					}
				}
				return result
			}))
			if errors.Is(err, errors.ErrUnsupported) {
				return
			}
			if err == nil {
				k.Error("InTx has returned nil")
			}
			k.notDone("k")
			k.runs("another")
		},
	}
}
