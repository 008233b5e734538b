package retry_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/retry"
)

func TestBackoffIsRandomAndBounded(t *testing.T) {
	for n, limit := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second,
		4: 5 * time.Second, 1 << 40: 5 * time.Second,
	} {
		different := map[time.Duration]bool{}
		for range 100 {
			d := retry.Backoff(n, time.Second, 5*time.Second)
			if d < 0 || d > limit {
				t.Errorf("after attempt %d: %v, at most %v", n, d, limit)
			}
			different[d] = true
		}
		if len(different) < 50 {
			t.Errorf("after attempt %d: only %d different waits", n, len(different))
		}
	}
	if d := retry.Backoff(100, time.Second, math.MaxInt64); d < 0 {
		t.Error(d)
	}
	if d := retry.Backoff(3, 0, 0); d != 0 {
		t.Error(d)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := retry.Wait(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := retry.Wait(ctx, time.Minute); err == nil {
			t.Error("no error")
		}
	})
}
