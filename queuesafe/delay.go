package queuesafe

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// dispose applies the table to a situation. On entry, d.Delay is what is left of another attempt's lease.
func (c *Consumer) dispose(d Disposition, delivery int) Disposition {
	r := d.Situation.rule()
	leaseLeft := d.Delay
	d.Action, d.Delay = r.action, 0
	if limit := c.options.MaxDeliveries; r.limited && limit > 0 && delivery >= limit {
		d.Action = Dead
	}
	if d.Action == Later && !r.atOnce {
		d.Delay = c.delay(delivery, leaseLeft)
	}
	return d
}

// delay returns the delay before the next delivery. It doubles with each; a random part is subtracted so that messages
// that failed together are not delivered together again. While another attempt's lease runs, the delay is no longer
// than the lease: after it the key has ended or can be taken over.
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

// extend keeps the message with this consumer until stop is called. Work shorter than m.ExtendEvery causes no call to
// the broker.
func (c *Consumer) extend(ctx context.Context, m Message, key retrysafe.Key) (stop func()) {
	if m.Extend == nil || m.ExtendEvery <= 0 {
		return func() {}
	}
	e := &extender{every: m.ExtendEvery}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the work goes on when the caller's context ends
	e.extend = func() {
		call, done := context.WithTimeout(ctx, m.ExtendEvery/2) // a call that hangs would be the last one
		defer done()
		if err := m.Extend(call); err != nil && ctx.Err() == nil {
			c.Tell(ctx, Event{Kind: ExtendFailed, Source: m.Source, Delivery: m.Delivery, Key: key, Err: err})
		}
	}
	e.start()
	return func() {
		cancel()
		e.stop()
	}
}

// extender calls extend at intervals.
type extender struct {
	every  time.Duration
	extend func()
	timer  *time.Timer

	mu      sync.Mutex
	stopped bool
}

func (e *extender) start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(e.every, e.beat)
}

// beat holds the lock while it calls the broker, so that a message is not extended after it was settled.
func (e *extender) beat() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return
	}
	e.extend()
	e.timer.Reset(e.every)
}

func (e *extender) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	e.timer.Stop()
}
