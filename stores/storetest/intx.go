package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TxHarness tells RunInTx how to open a store whose completions can share a transaction with what the work writes.
type TxHarness struct {
	// Open returns a fresh, empty store, and closes it with t.Cleanup. Each rule opens its own. Required.
	Open func(t *testing.T) TxStore
}

// TxStore is a store and a table beside it.
type TxStore struct {
	retrysafe.Store
	// InTx is the store's InTx. exec executes a statement in the transaction that f is given. Where transactions are
	// not SQL, so that f has no means to end its own, exec returns an error that is errors.ErrUnsupported for COMMIT,
	// ROLLBACK and BEGIN, and the rules about that check nothing.
	InTx func(ctx context.Context, f func(ctx context.Context, exec func(sql string) error) error) error
	// Rows counts what is committed in the table storetest_rows, which has one column, of text, and is empty at first.
	Rows func(t *testing.T) int
}

// insertRow is what the work writes.
const insertRow = "INSERT INTO storetest_rows VALUES ('row')"

// txRule is one sentence about InTx and the code that checks it.
type txRule struct {
	name, sentence string
	check          func(k *txKit)
}

// RunInTx checks each rule about a store's InTx in a subtest.
func RunInTx(t *testing.T, h TxHarness) {
	t.Helper()
	for _, r := range txRules() {
		t.Run(r.name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("the rule: %s", r.sentence)
				}
			}()
			k := &txKit{T: t, store: h.Open(t)}
			k.guard = retrysafe.New(k.store.Store, retrysafe.Options{})
			t.Cleanup(func() { _ = k.guard.Shutdown(context.Background()) })
			r.check(k)
		})
	}
}

// txKit is what a rule works with.
type txKit struct {
	*testing.T
	store TxStore
	guard *retrysafe.Guard
}

// inTx is a function as InTx takes it.
type inTx = func(ctx context.Context, exec func(sql string) error) error

// writeThen returns a function that writes a row, and then does something else.
func writeThen(more inTx) inTx {
	return func(ctx context.Context, exec func(string) error) error {
		if err := exec(insertRow); err != nil {
			return err
		}
		return more(ctx, exec)
	}
}

func write(_ context.Context, exec func(string) error) error { return exec(insertRow) }

// writeInTx is work that writes one row in a transaction.
func (k *txKit) writeInTx(ctx context.Context, _ *retrysafe.Attempt) error {
	return k.store.InTx(ctx, write)
}

// do runs work under a key. It reports whether the work ran, and returns what the caller is told.
func (k *txKit) do(id string, work func(ctx context.Context, a *retrysafe.Attempt) error) (ran bool, err error) {
	k.Helper()
	_, err = retrysafe.Do(context.Background(), k.guard, retrysafe.Request{Key: keyOf(id)},
		func(ctx context.Context, a *retrysafe.Attempt) (string, error) {
			ran = true
			if err := retrysafe.SetResult(ctx, "answer"); err != nil {
				return "", err
			}
			return "answer", work(ctx, a)
		})
	return ran, err
}

// releasing runs a function in a transaction, and says of each failure that nothing has happened, as many programs
// do. It returns what InTx returned.
func (k *txKit) releasing(id string, f inTx) (failure error) {
	k.Helper()
	_, _ = k.do(id, func(ctx context.Context, _ *retrysafe.Attempt) error {
		failure = k.store.InTx(ctx, f)
		return retrysafe.Retryable(failure)
	})
	return failure
}

// rows expects so many.
func (k *txKit) rows(want int) {
	k.Helper()
	if got := k.store.Rows(k.T); got != want {
		k.Errorf("got %d rows, want %d", got, want)
	}
}

// runs expects the work of a key to run, and to commit one row.
func (k *txKit) runs(id string) {
	k.Helper()
	before := k.store.Rows(k.T)
	ran, err := k.do(id, k.writeInTx)
	if !ran || err != nil {
		k.Errorf("%s: ran %v, got %v; want it to run", id, ran, err)
	}
	k.rows(before + 1)
}

// done expects the key to be done.
func (k *txKit) done(id string) {
	k.Helper()
	ran, err := k.do(id, func(context.Context, *retrysafe.Attempt) error { return nil })
	if ran || err != nil {
		k.Errorf("%s: ran %v, got %v; want the answer", id, ran, err)
	}
}

// notDone expects the key not to be done; and if something of it was committed, that its work does not run again.
func (k *txKit) notDone(id string) {
	k.Helper()
	rows := k.store.Rows(k.T)
	ran, err := k.do(id, func(context.Context, *retrysafe.Attempt) error {
		return retrysafe.Retryable(errors.New("look only"))
	})
	switch {
	case !ran && err == nil:
		k.Errorf("%s: done, with %d rows", id, rows)
	case ran && rows > 0:
		k.Errorf("%s: its work runs again, with %d rows there", id, rows)
	}
}

// watch returns the channel of a watch of a key. For a store that is no Watcher it holds a value already.
func (k *txKit) watch(id string) <-chan struct{} {
	k.Helper()
	w, ok := k.store.Store.(retrysafe.Watcher)
	if !ok {
		changed := make(chan struct{}, 1)
		changed <- struct{}{}
		return changed
	}
	changed, stop, err := w.Watch(k.Context(), keyOf(id))
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(stop)
	return changed
}

// inspect returns the body and the names of the steps of a key's only record, if the store is an Inspector.
func (k *txKit) inspect(id string) (body string, steps []string, ok bool) {
	k.Helper()
	i, ok := k.store.Store.(retrysafe.Inspector)
	if !ok {
		return "", nil, false
	}
	found, err := i.Inspect(k.Context(), keyOf(id).Digest())
	if err != nil || len(found) != 1 {
		k.Fatalf("Inspect: got %d records, %v; want one", len(found), err)
	}
	for _, s := range found[0].Steps {
		steps = append(steps, s.Name)
	}
	return string(found[0].Result.Body), steps, true
}

// unclaimable is a store whose claims fail.
type unclaimable struct{ retrysafe.Store }

func (unclaimable) Claim(context.Context, retrysafe.ClaimParams) (retrysafe.Claim, error) {
	return retrysafe.Claim{}, errors.New("the store is down")
}

func keyOf(id string) retrysafe.Key { return retrysafe.Key{Scope: "tenant", ID: id} }

var errOfWork = errors.New("the work's error")

func txRules() []txRule {
	rules := []txRule{
		{
			"intx-commits-both",
			"what f wrote and the completion are there together, for retries and for those who watch", func(k *txKit) {
				changed := k.watch("k")
				k.runs("k")
				k.done("k")
				k.rows(1)
				select {
				case <-changed:
				case <-time.After(slack):
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
		{
			"intx-lease-lost",
			"if another attempt has the key, nothing of f remains and InTx returns ErrLeaseLost", func(k *txKit) {
				_, _ = k.do("k", func(ctx context.Context, a *retrysafe.Attempt) error {
					p := retrysafe.ClaimParams{Key: a.Key(), Owner: retrysafe.NewOwner(), Lease: time.Hour, TakeOver: true}
					if err := k.store.Extend(ctx, a.Control().Lease(), 0); err != nil {
						k.Fatal(err)
					}
					if c, err := k.store.Claim(ctx, p); err != nil || c.Verdict != retrysafe.Acquired {
						k.Fatalf("take over: got %v, %v", c.Verdict, err)
					}
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
