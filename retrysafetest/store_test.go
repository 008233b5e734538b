package retrysafetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/retrysafetest"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(*testing.T) retrysafe.Store { return retrysafetest.NewStore() },
		Age:  func(_ *testing.T, s retrysafe.Store, d time.Duration) { s.(*retrysafetest.Store).Advance(d) },
	})
}

// Time passes for leases and retention. Seen to fail without Advance in the clock.
func TestAdvance(t *testing.T) {
	store := retrysafetest.NewStore()
	guard := retrysafe.New(store,
		retrysafe.Options{Policy: retrysafe.Policy{Retention: retrysafe.Retention{Key: 24 * time.Hour}}})
	runs := 0
	for range 2 {
		for range 2 {
			_, err := retrysafe.Do(t.Context(), guard, retrysafe.Request{Key: retrysafe.Key{ID: "k"}},
				func(context.Context, *retrysafe.Attempt) (int, error) { runs++; return runs, nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		store.Advance(25 * time.Hour)
	}
	if runs != 2 {
		t.Errorf("ran %d times, want 2", runs)
	}
}

func charge(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
	return retrysafe.Step(ctx, "charge", func(context.Context, string) (string, error) { return "charged", nil })
}

// Each place where a process may die is visited, and the key is abandoned at once. Seen to fail with the lease left
// running (in flight instead of unknown), and with a place left out.
func TestPlacesToDie(t *testing.T) {
	store := retrysafetest.NewStore()
	guard := retrysafe.New(store, retrysafe.Options{})
	var retries []string
	for n := 0; ; n++ {
		request := retrysafe.Request{Key: retrysafe.Key{ID: fmt.Sprint(n)}}
		if !store.KillAt(n, func() { _, _ = retrysafe.Do(context.Background(), guard, request, charge) }) {
			break
		}
		_, err := retrysafe.Do(t.Context(), guard, request, charge)
		switch {
		case err == nil:
			retries = append(retries, "done")
		case errors.Is(err, retrysafe.ErrAbandoned):
			retries = append(retries, "unknown")
		default:
			t.Errorf("place %d: %v", n, err)
		}
	}
	// Claim, Checkpoint, Complete: before and after each.
	if got, want := strings.Join(retries, " "), "done unknown unknown unknown unknown done"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What deferred functions of a killed attempt still try is refused. Seen to fail with its calls let through.
func TestTheDeadSaveNothing(t *testing.T) {
	store := retrysafetest.NewStore()
	guard := retrysafe.New(store, retrysafe.Options{})
	var late error
	const beforeCheckpoint = 2
	store.KillAt(beforeCheckpoint, func() {
		_, _ = retrysafe.Do(context.Background(), guard, retrysafe.Request{Key: retrysafe.Key{ID: "k"}},
			func(ctx context.Context, a *retrysafe.Attempt) (string, error) {
				defer func() {
					late = store.Complete(context.Background(), a.Control().Lease(), retrysafe.Result{}, retrysafe.Retention{})
				}()
				return charge(ctx, a)
			})
	})
	if !errors.Is(late, retrysafe.ErrLeaseLost) {
		t.Errorf("got %v, want a lost lease", late)
	}
}

// A paused attempt goes on, and what it saves is refused if another has taken over. Seen to fail with calls of paused
// attempts refused for ever (the last line), and with their lease left running.
func TestPausedAttempts(t *testing.T) {
	store := retrysafetest.NewStore()
	guard := retrysafe.New(store, retrysafe.Options{Policy: retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}})
	request := retrysafe.Request{Key: retrysafe.Key{ID: "k"}}
	runs := 0
	do := func() error {
		_, err := retrysafe.Do(context.Background(), guard, request, func(context.Context, *retrysafe.Attempt) (int, error) {
			runs++
			return runs, nil
		})
		return err
	}
	var late, retry error
	const beforeComplete = 2
	if !store.PauseAt(beforeComplete, func() { late = do() }, func() { retry = do() }) {
		t.Fatal("not paused")
	}
	if !errors.Is(late, retrysafe.ErrLeaseLost) || retry != nil || runs != 2 {
		t.Errorf("got %v and %v after %d runs; want a lost lease, an answer, 2 runs", late, retry, runs)
	}

	request.Key.ID = "another"
	if store.PauseAt(beforeComplete, func() { late = do() }, func() {}); late != nil {
		t.Errorf("without a take-over the paused attempt got %v, want that it completes", late)
	}
}

// This is a test of work that is no HTTP handler: the operation is killed at each place where its process may die, and
// retried.
func ExampleStore_KillAt() {
	store := retrysafetest.NewStore()
	guard := retrysafe.New(store, retrysafe.Options{Policy: retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}})
	orders := 0 // stands for a table

	order := func(id string) error {
		request := retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: id}}
		_, err := retrysafe.Do(context.Background(), guard, request,
			func(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
				return "ordered", store.InTx(ctx, func(ctx context.Context) error {
					store.Apply(ctx, func() { orders++ })
					return retrysafe.SetResult(ctx, "ordered")
				})
			})
		return err
	}

	n := 0
	for ; store.KillAt(n, func() { _ = order(fmt.Sprint(n)) }); n++ {
		if err := order(fmt.Sprint(n)); err != nil {
			fmt.Println("the retry:", err)
		}
	}
	fmt.Println(n, "orders, killed at a place each:", orders-1, "rows") // the last one was not killed
	// Output:
	// 4 orders, killed at a place each: 4 rows
}
