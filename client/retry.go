package client

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/retry"
)

// mayRetry returns how long to wait before the next attempt, or why there is none.
func (c *call) mayRetry(r Reply) (wait time.Duration, why string) {
	o := &c.e.options
	wait = retry.Backoff(c.attempts, o.Backoff, o.MaxBackoff)
	switch {
	case r.Exactly:
		wait = r.RetryAfter
	case r.RetryAfter > 0:
		wait = r.RetryAfter + retry.Backoff(1, o.Backoff, o.MaxBackoff)
	}
	inFlight := r.Signal.Name == InFlight
	deadline, hasDeadline := c.ctx.Deadline()
	switch {
	case c.ctx.Err() != nil:
		return 0, GaveUpContext
	case inFlight && time.Since(c.waitingSince)+wait > o.MaxInFlight:
		return 0, GaveUpInFlight
	case !inFlight && !c.e.budgets.failed(c.request.Origin):
		return 0, GaveUpBudget
	case !inFlight && (c.attempts-c.waited >= o.Attempts || r.Last):
		return 0, GaveUpAttempts
	case r.RetryAfter > o.MaxRetryAfter:
		return 0, GaveUpRetryAfter
	case c.pastHorizon(wait):
		return 0, GaveUpHorizon
	case hasDeadline && time.Until(deadline) <= wait:
		return 0, GaveUpContext
	}
	return wait, ""
}
