package retrysafe

import (
	"context"
	"sync"
	"time"
)

// lazyContext is a context with a deadline that costs nothing until somebody waits for it: most work ends, and stores
// in memory answer, without ever looking at Done.
type lazyContext struct {
	parent   context.Context
	deadline time.Time // zero: none

	lock   sync.Mutex
	real   context.Context // made when first needed
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
}

// Deadline implements context.Context.
func (c *lazyContext) Deadline() (time.Time, bool) {
	parent, ok := c.parent.Deadline()
	if c.deadline.IsZero() || ok && parent.Before(c.deadline) {
		return parent, ok
	}
	return c.deadline, true
}

// Done implements context.Context.
func (c *lazyContext) Done() <-chan struct{} { return c.get().Done() }

// Err implements context.Context.
func (c *lazyContext) Err() error {
	if c.needed() {
		return c.get().Err()
	}
	return nil
}

// Value implements context.Context.
func (c *lazyContext) Value(key any) any {
	c.lock.Lock()
	real := c.real
	c.lock.Unlock()
	if real != nil {
		return real.Value(key) // so that the context package finds the cause and links children without a goroutine
	}
	return c.parent.Value(key)
}

// end cancels the context with a cause. With a nil cause it frees what the context holds.
func (c *lazyContext) end(cause error) {
	c.lock.Lock()
	real := c.real
	c.lock.Unlock()
	if cause == nil && real == nil {
		return
	}
	c.get()
	c.cancel(cause)
	c.stop()
}

// needed reports whether the real context exists or would have ended by now.
func (c *lazyContext) needed() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.real != nil || c.parent.Err() != nil || !c.deadline.IsZero() && !time.Now().Before(c.deadline)
}

func (c *lazyContext) get() context.Context {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.real == nil {
		ctx, cancel := context.WithCancelCause(c.parent)
		c.real, c.cancel, c.stop = ctx, cancel, func() {}
		if !c.deadline.IsZero() {
			c.real, c.stop = context.WithDeadline(ctx, c.deadline)
		}
	}
	return c.real
}
