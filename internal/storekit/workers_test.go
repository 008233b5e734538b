package storekit

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A timer that fires as the batch ends opens nothing.
// Seen to fail with over taken out of Workers.runWatched.
func TestTimerOfAWorkerThatJustEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWorkers(1, 4, func([]int) []int { time.Sleep(Patience); return nil })
		for range 100 {
			w.runWatched(nil)
			synctest.Wait()
			if _, _, most, _ := w.State(); most != 1 {
				t.Fatalf("%d workers, want 1", most)
			}
		}
	})
}

// A worker that is held up is made up for, by one that ends afterwards.
// Seen to fail with the timer taken out of Workers.runWatched, and with max left as it is.
func TestWorkerThatIsHeldUpIsMadeUpFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unlock, ran := make(chan struct{}), atomic.Int64{}
		w := NewWorkers(1, 4, func(ops []int) []int {
			if ops[0] == 0 {
				<-unlock
			}
			ran.Add(1)
			return nil
		})
		w.Submit(0)
		synctest.Wait()
		w.Submit(1)
		time.Sleep(Patience)
		synctest.Wait()
		if ran.Load() != 1 {
			t.Error("the second operation waits for the first")
		}
		close(unlock)
		synctest.Wait()
		if running, _, most, _ := w.State(); running != 0 || most != 1 || ran.Load() != 2 {
			t.Errorf("%d workers of %d after %d operations, want 0 of 1 after 2", running, most, ran.Load())
		}
	})
}
