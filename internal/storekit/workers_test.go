package storekit

import (
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
