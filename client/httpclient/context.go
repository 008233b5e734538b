package httpclient

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe"
)

var errTwoAttempts = errors.New("httpclient: the context given to Do and the request's own belong to different " +
	"attempts of a Guard, " +
	"whose child keys differ: make the request with the context that Do is given")

// joinContexts returns a context that ends with either of two, and has the values of ctx, or else those of own. done
// frees what it holds.
func joinContexts(ctx, own context.Context) (joined context.Context, done func(), err error) {
	if own == context.Background() {
		return ctx, func() {}, nil
	}
	attempt, inside := retrysafe.AttemptFrom(ctx)
	if other, too := retrysafe.AttemptFrom(own); inside && too && attempt != other {
		return nil, nil, errTwoAttempts
	}
	joined, cancel := context.WithCancelCause(&twoContexts{ctx, own})
	undo := func() {}
	deadline, limited := own.Deadline()
	if limited {
		joined, undo = context.WithDeadline(joined, deadline)
	}
	stop := context.AfterFunc(own, func() {
		if !limited || !errors.Is(own.Err(), context.DeadlineExceeded) { // the joined context has the same deadline
			cancel(context.Cause(own))
		}
	})
	return joined, func() { stop(); undo(); cancel(nil) }, nil
}

// twoContexts is a context that also has the values of another one.
type twoContexts struct {
	context.Context
	own context.Context
}

// Value implements context.Context.
func (c *twoContexts) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.own.Value(key)
}
