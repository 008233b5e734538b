package queuesafe

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// dispose applies the table to a situation. The Delay that d comes with is what is left of another attempt's lease.
func (c *Consumer) dispose(d Disposition, delivery int) Disposition {
	r := d.Situation.rule()
	leaseLeft := d.Delay
	d.Action, d.Delay = r.action, 0
	if limit := c.options.MaxDeliveries; r.gives && limit > 0 && delivery >= limit {
		d.Action = Dead
	}
	if d.Action == Later && !r.atOnce {
		d.Delay = c.delay(delivery, leaseLeft)
	}
	return d
}

// delay doubles with each delivery, up to a quarter of it left out so that what failed together does not come back together.
// While another attempt's lease runs, it need not be longer than that: then either the key has ended, or it can be taken
// over.
func (c *Consumer) delay(delivery int, leaseLeft time.Duration) time.Duration {
	d := c.options.MinDelay
	for n := 1; n < delivery && d < c.options.MaxDelay; n++ {
		d *= 2
	}
	d = min(d, c.options.MaxDelay)
	d -= rand.N(d/4 + 1)
	if leaseLeft > 0 {
		d = min(d, max(leaseLeft, c.options.MinDelay))
	}
	return d
}

// holdOn keeps the message with this consumer until stop is called. Short work costs a timer and asks the broker nothing.
func (c *Consumer) holdOn(ctx context.Context, m Message, key retrysafe.Key) (stop func()) {
	if m.Extend == nil || m.ExtendEvery <= 0 {
		return func() {}
	}
	h := &hold{every: m.ExtendEvery}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the work outlives the caller's patience
	h.extend = func() {
		if err := m.Extend(ctx); err != nil && ctx.Err() == nil {
			c.Tell(ctx, Event{Kind: ExtendFailed, Source: m.Source, Delivery: m.Delivery, Key: key, Err: err})
		}
	}
	h.start()
	return func() {
		cancel()
		h.stop()
	}
}

// hold is a message that is being kept.
type hold struct {
	every  time.Duration
	extend func()
	timer  *time.Timer

	mu      sync.Mutex
	stopped bool
}

func (h *hold) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.every, h.beat)
}

// beat holds the lock while it asks the broker, so that after stop nothing is extended that has been settled.
func (h *hold) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	h.extend()
	h.timer.Reset(h.every)
}

func (h *hold) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.timer.Stop()
}
