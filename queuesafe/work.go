package queuesafe

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/retrysafe/retrysafe"
)

// errPoison is how a key ends whose attempts never do. It is told from a handler's failure by its code.
var errPoison = errors.New("too many attempts that never ended")

// poisonCode tells Poison from Failed in the record: it fits 32 bits, and no handler has reason to use it.
const poisonCode = 0x7e7501

// work is the handler as a Guard runs it.
func (c *Consumer) work(m Message, h Handler) retrysafe.Work {
	return func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
		if limit := c.options.MaxAttempts; limit > 0 && a.Control().Tries() > limit {
			return retrysafe.Result{}, retrysafe.TerminalCode(poisonCode, errPoison)
		}
		// A message's result is that it is done: a store's InTx can save that at any time.
		a.Control().Capture(func() (retrysafe.Result, error) { return retrysafe.Result{}, nil })
		return retrysafe.Result{}, recovering(ctx, m, h)
	}
}

// handlerError is what a handler has returned: the Guard's own errors are told from it by their type.
type handlerError struct{ error }

func (e *handlerError) Unwrap() error { return e.error }

// recovering runs the handler. One message must not take the others down with it.
func recovering(ctx context.Context, m Message, h Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = retrysafe.Unknown(&PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	if err := h(ctx, m); err != nil {
		return &handlerError{err}
	}
	return nil
}

// judge says in which situation the Guard left a message.
func judge(ctx context.Context, out retrysafe.Outcome, err error) Disposition {
	d := Disposition{Err: err}
	var released *handlerError
	var failure *retrysafe.Failure
	var refusal *retrysafe.Refusal
	switch {
	case errors.Is(err, retrysafe.ErrAbandoned): // first, since it may be around an error of the handler's
		d.Situation = Unknown
	case errors.As(err, &released):
		d.Situation, d.Err = Retryable, released.error
	case err == nil || errors.As(err, &failure):
		d.Situation = ended(out, failure)
	case errors.As(err, &refusal):
		d.Situation = refused(refusal)
		d.Delay = refusal.Record.LeaseLeft
	case errors.Is(err, retrysafe.ErrShutdown), ctx.Err() != nil:
		d.Situation = Stopping
	default: // it failed or is full
		d.Situation = StoreDown
	}
	if d.Situation.Action() == Ack {
		d.Err = nil
	}
	return d
}

func refused(r *retrysafe.Refusal) Situation {
	switch {
	case errors.Is(r, retrysafe.ErrMismatch):
		return Mismatch
	case errors.Is(r, retrysafe.ErrNotReplayable) && r.Record.State == retrysafe.Failed:
		return Failed
	case errors.Is(r, retrysafe.ErrNotReplayable): // a message needs no answer
		return Duplicate
	}
	return InFlight // or waited in vain, or a zombie
}

func ended(out retrysafe.Outcome, failure *retrysafe.Failure) Situation {
	failed := failure != nil || out.Result.Failed
	switch {
	case !out.Stored && !out.Unprotected:
		return Unsaved
	case failure != nil && failure.Code == poisonCode:
		return Poison
	case failed:
		return Failed
	case out.Replayed:
		return Duplicate
	case out.Unprotected:
		return Unprotected
	}
	return Processed
}
