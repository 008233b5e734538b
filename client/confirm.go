package client

import (
	"context"
	"errors"
	"sync"
)

// WithConfirm returns a context whose calls stay in the journal after they have returned, until confirm is called:
// when the program has saved their answers. If the process dies before that, Resume gets the same answers again.
// confirm returns the errors of the journal; an intent that could not be forgotten is only sent and answered once
// more.
//
// It is for calls over gRPC and Connect, which otherwise leave the journal when they return. Over HTTP, closing the
// response's body confirms.
func WithConfirm(ctx context.Context) (inside context.Context, confirm func() error) {
	c := &confirmation{}
	return context.WithValue(ctx, confirmContext{}, c), c.confirm
}

type confirmContext struct{}

// confirmation holds the calls that wait for it.
type confirmation struct {
	mu   sync.Mutex
	done []func() error
}

func (c *confirmation) add(done func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, done)
}

func (c *confirmation) confirm() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []error
	for _, done := range c.done {
		all = append(all, done())
	}
	c.done = nil
	return errors.Join(all...)
}

// Call is Do for transports whose caller has the answer as soon as the call returns. The journal then forgets the
// intent, unless the context is one of [WithConfirm].
func (e *Engine) Call(ctx context.Context, r Request, x Exchange) error {
	done, err := e.Do(ctx, r, x)
	if done == nil {
		return err
	}
	if c, ok := ctx.Value(confirmContext{}).(*confirmation); ok {
		c.add(func() error { return done(true) })
		return err
	}
	_ = done(true) // an entry that stays is answered once more by the next Resume; that is no reason to fail this call
	return err
}
