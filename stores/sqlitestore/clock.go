package sqlitestore

import (
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

// instant is microseconds since 1970 on the store's clock.
type instant = storekit.Instant

// clock is the store's. It starts at the wall clock and goes on with the monotonic one, so that steps of the wall clock
// change nothing while the store is open. Should the wall clock have gone back while the store was closed, it starts
// at the last fence.
type clock struct {
	start time.Time
	base  instant
	aged  *atomic.Int64 // microseconds that a test has let pass
}

func newClock(lastFence int64, aged *atomic.Int64) *clock {
	now := time.Now()
	if aged == nil {
		aged = new(atomic.Int64)
	}
	return &clock{start: now, base: max(now.UnixMicro(), lastFence-aged.Load()), aged: aged}
}

func (c *clock) now() instant {
	return c.base + time.Since(c.start).Microseconds() + c.aged.Load()
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
