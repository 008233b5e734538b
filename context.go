package retrysafe

import (
	"context"
	"sync"
	"time"
)

// lazyContext is a context with a deadline that costs nothing until it is waited for: most work ends, and stores
// in memory answer, without ever looking at Done.
type lazyContext struct {
	parent   context.Context
	deadline time.Time // zero: none
	timeouts *line     // of contexts that end with a cause and whose parent never ends; nil: another kind

	lock  sync.Mutex
	real  *realContext // made when first needed
	cause error        // why it has ended; nil: it has not
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
	if real != nil { // so that the context package finds the cause and links children without a goroutine
		if v := real.Value(key); v != nil {
			return v
		}
	}
	return c.parent.Value(key)
}

// end cancels the context with a cause, and frees what it holds. Who looks at it only afterwards finds it ended too.
func (c *lazyContext) end(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.lock.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	real := c.real
	c.lock.Unlock()
	if real != nil {
		real.end(cause)
	}
}

// needed reports whether the real context exists or would have ended by now.
func (c *lazyContext) needed() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.real != nil || c.cause != nil || c.parent.Err() != nil || !c.deadline.IsZero() && time.Until(c.deadline) <= 0
}

func (c *lazyContext) get() *realContext {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.real == nil {
		c.real = c.makeReal()
		if c.cause != nil {
			c.real.end(c.cause)
		}
	}
	return c.real
}

func (c *lazyContext) makeReal() *realContext {
	if c.timeouts != nil {
		return newTimeLimit(c.deadline, c.timeouts)
	}
	ctx, stop := context.WithDeadline(c.parent, c.deadline)
	return &realContext{Context: ctx, cancel: func(error) { stop() }}
}

// realContext is what a lazyContext becomes when it is waited for.
type realContext struct {
	context.Context
	cancel context.CancelCauseFunc
	limit  timeLimit
}

func (r *realContext) end(cause error) {
	r.cancel(cause)
	if r.limit.timeouts != nil {
		r.limit.timeouts.leave(&r.limit.place)
	}
}

// timeLimit is the parent of a context that can be canceled with a cause and whose time runs out in a line: by the
// context package alone that takes two contexts and a timer. It is never done; its one child is told through AfterFunc.
type timeLimit struct {
	timeouts *line
	place    place
	expire   func()
}

// newTimeLimit returns a context that ends at a time, or never if that is zero.
func newTimeLimit(at time.Time, timeouts *line) *realContext {
	r := &realContext{limit: timeLimit{timeouts: timeouts}}
	r.Context, r.cancel = context.WithCancelCause(&r.limit)
	switch {
	case at.IsZero():
	case time.Until(at) <= 0:
		r.limit.expire()
	default:
		timeouts.join(&r.limit.place, &r.limit, at)
	}
	return r
}

// AfterFunc is how the context package asks to be told: f cancels the child with what Err returns.
func (l *timeLimit) AfterFunc(f func()) (stop func() bool) {
	l.expire = f
	return func() bool { return true }
}

func (l *timeLimit) due() { l.expire() }

// Deadline implements context.Context. The lazyContext knows it.
func (l *timeLimit) Deadline() (at time.Time, ok bool) { return at, false }

// Done implements context.Context.
func (l *timeLimit) Done() <-chan struct{} { return l.timeouts.never }

// Err implements context.Context. It is asked once the time is up.
func (l *timeLimit) Err() error { return context.DeadlineExceeded }

// Value implements context.Context. The lazyContext has the values.
func (l *timeLimit) Value(any) any { return nil }

// detached is a context that has the values of another and outlives it. Unlike context.WithoutCancel it can be part of
// a struct, and looking for a value costs no memory.
type detached struct{ values context.Context }

// Deadline implements context.Context.
func (d *detached) Deadline() (at time.Time, ok bool) { return at, false }

// Done implements context.Context.
func (d *detached) Done() <-chan struct{} { return nil }

// Err implements context.Context.
func (d *detached) Err() error { return nil }

// Value implements context.Context.
func (d *detached) Value(key any) any { return d.values.Value(key) }
