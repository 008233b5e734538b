package retrysafe_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A store inside of one that only says so is swept, and wakes waiters. Seen to fail with a type assertion for As in
// newEngine, for the Sweeper and for the Watcher.
func TestTheStoreInsideSweepsAndWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(memstore.Options{})
		var swept atomic.Bool
		observer := retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) {
			if e.Kind == retrysafe.SweepEnded {
				swept.Store(true)
			}
		})
		open := func(o retrysafe.Observer) *retrysafe.Guard { // as in another process
			return retrysafe.New(wrapper{inner}, retrysafe.Options{Observer: o, Policy: retrysafe.Policy{
				OnInFlight: retrysafe.Wait(time.Minute),
			}})
		}
		work := func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			time.Sleep(10*time.Second + time.Microsecond)
			return retrysafe.Result{}, nil
		}
		one, other := open(observer), open(nil)
		began := time.Now()
		go one.Do(t.Context(), pay(), work)
		synctest.Wait()
		if out, err := other.Do(t.Context(), pay(), work); err != nil || !out.Replayed {
			t.Errorf("the waiter got %+v, %v", out, err)
		}
		if waited := time.Since(began); waited > 10*time.Second+time.Millisecond {
			t.Errorf("the waiter was not woken, but asked after %v", waited)
		}
		if !swept.Load() {
			t.Error("the store was not swept")
		}
	})
}
