package queuesafe

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/retrysafe/retrysafe"
)

// errPoison ends a key whose attempts never end. The record holds poisonCode, which distinguishes it from a handler's
// failure.
var errPoison = errors.New("too many attempts without a known outcome")

// poisonCode is the Failure.Code of Poison. It fits 32 bits, and no handler has reason to use it.
const poisonCode = 0x7e7501

// work returns the handler as a Guard runs it.
func (c *Consumer) work(m Message, h Handler) retrysafe.Work {
	return func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
		control := a.Control()
		// After saved steps, attempts that said that nothing happened count as tries too. They are no reason to give up.
		if limit := c.options.MaxAttempts; limit > 0 && control.TookOver() && control.Tries() > limit {
			return retrysafe.Result{}, retrysafe.TerminalCode(poisonCode, errPoison)
		}
		// The result of a message is empty, so a store's InTx can save it at any time.
		control.Capture(func() (retrysafe.Result, error) { return retrysafe.Result{}, nil })
		return retrysafe.Result{}, recovering(ctx, m, h)
	}
}

// recovering runs the handler and turns its panic into an error, so that one message does not end the process that
// handles others.
func recovering(ctx context.Context, m Message, h Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = retrysafe.Unknown(&PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	return h(ctx, m)
}

// situations translates what the Guard says about a key into what it means for a message.
var situations = map[retrysafe.Situation]Situation{
	retrysafe.SituationProcessed:        Processed,
	retrysafe.SituationReplayed:         Duplicate,
	retrysafe.SituationNotReplayable:    Duplicate, // a message needs no answer
	retrysafe.SituationUnprotected:      Unprotected,
	retrysafe.SituationUnsaved:          Unsaved,
	retrysafe.SituationReleased:         Retryable,
	retrysafe.SituationFailed:           Failed,
	retrysafe.SituationClosed:           Failed,
	retrysafe.SituationInFlight:         InFlight,
	retrysafe.SituationOutcomeUnknown:   Unknown,
	retrysafe.SituationMismatch:         Mismatch,
	retrysafe.SituationStoreUnavailable: StoreDown,
	retrysafe.SituationShuttingDown:     Stopping,
	retrysafe.SituationCanceled:         Stopping,
	retrysafe.SituationKeyMalformed:     NoKey,
}

// judge returns the situation of a message after Guard.Do. The Disposition's Delay is what is left of another attempt's
// lease.
func (c *Consumer) judge(out retrysafe.Outcome, err error) Disposition {
	a := c.guard.ExplainOutcome(out, err)
	d := Disposition{Situation: situations[a.Situation], Delay: a.Record.LeaseLeft, Err: err}
	var failure *retrysafe.Failure
	switch {
	case d.Situation == Failed && errors.As(err, &failure) && failure.Code == poisonCode:
		d.Situation = Poison
	case d.Situation == Duplicate && a.Record.State == retrysafe.Failed:
		d.Situation = Failed
	}
	if d.Situation.Action() == Ack {
		d.Err = nil
	}
	return d
}
