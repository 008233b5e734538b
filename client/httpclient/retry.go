package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/retrysafe/retrysafe/internal/retry"
)

// maxHops is how many redirects of one intent are followed.
const maxHops = 10

// verdict is what a reply means.
type verdict struct {
	reply
	signal
	evidence
	took time.Duration
}

// try sends the call until its outcome is known, or until there is no more to be tried.
func (t *Transport) try(c *call) (*http.Response, error) {
	if time.Since(c.begunAt) >= t.options.Horizon {
		return nil, c.unknown(verdict{}, GaveUpHorizon)
	}
	for {
		v := c.attempt()
		switch v.action {
		case finish:
			c.report(v, false, 0)
			t.budgets.succeeded(c.origin())
			return c.conclude(v)
		case giveUp:
			c.report(v, false, 0)
			return nil, c.unknown(v, GaveUpAnswer)
		case notKept:
			c.report(v, false, 0)
			t.budgets.succeeded(c.origin())
			return nil, c.notReplayable(v)
		case follow, refresh: // at once
			c.report(v, true, 0)
			v.discard()
			continue
		}
		wait, why := c.mayRetry(v)
		c.report(v, why == "", wait)
		if why != "" {
			return c.exhausted(v, why)
		}
		v.discard()
		if err := retry.Wait(c.ctx, wait); err != nil {
			return c.interrupted(v, err)
		}
	}
}

// attempt sends once and judges what came of it. What follows a redirect or a 401 belongs to the same attempt.
func (c *call) attempt() verdict {
	began := time.Now()
	if !c.goesOn {
		c.attempts++
	}
	v := verdict{reply: c.send()}
	v.evidence = c.read(v.reply)
	v.signal = c.t.judge(v.evidence)
	v.took = time.Since(began)
	c.goesOn = v.action == follow || v.action == refresh
	c.unclear = c.unclear || v.effect == mayHaveRun
	if v.name == signalInFlight {
		c.waited++
		if c.waitingSince.IsZero() {
			c.waitingSince = time.Now()
		}
	}
	c.refused = v.action == refresh
	c.refreshed = c.refreshed || c.refused
	if v.action == follow {
		c.hops++
		c.redirect(v.location)
	}
	if v.serverError {
		c.failures++
	}
	return v
}

// redirect makes the call go to another URL of the same origin, with the same key.
func (c *call) redirect(to *url.URL) {
	name := c.t.carrier.member.Query
	if name != "" && c.url.Query().Has(name) && !to.Query().Has(name) {
		putQuery(to, name, c.key)
	}
	c.url = to
}

// conclude returns a final answer: unless it only says that this attempt did nothing, and an earlier one may have.
func (c *call) conclude(v verdict) (*http.Response, error) {
	if v.effect == didNothing && c.unclear {
		return nil, c.unknown(v, GaveUpRefused)
	}
	if v.response == nil {
		return nil, v.err
	}
	c.nameLocation(v.response)
	return v.response, nil
}

// nameLocation makes the Location of a redirect that comes after others absolute: http.Client would take it as relative to where the
// first sending went.
func (c *call) nameLocation(r *http.Response) {
	location := r.Header.Get("Location")
	if c.hops == 0 || location == "" || r.StatusCode/100 != 3 {
		return
	}
	if to, err := c.url.Parse(location); err == nil {
		r.Header.Set("Location", to.String())
	}
}

// exhausted ends a call that could be tried again, and is not.
func (c *call) exhausted(v verdict, why string) (*http.Response, error) {
	switch {
	case c.unclear:
		return nil, c.unknown(v, why)
	case v.response != nil:
		return v.response, nil
	}
	return nil, fmt.Errorf("httpsafe: nothing was sent in %d attempts (%s): %w", c.attempts, why, v.err)
}

// interrupted ends a call whose context ended while it waited.
func (c *call) interrupted(v verdict, err error) (*http.Response, error) {
	if c.unclear {
		return nil, c.unknown(v, GaveUpContext)
	}
	return nil, fmt.Errorf("httpsafe: nothing was done in %d attempts: %w", c.attempts, err)
}

// mayRetry returns how long to wait, or why there is no next attempt.
func (c *call) mayRetry(v verdict) (wait time.Duration, why string) {
	o := &c.t.options
	failed := c.attempts - c.waited
	inFlight := v.name == signalInFlight // the server is well, it asks for patience: what counts is time, not attempts
	wait = retry.Backoff(c.attempts, o.Backoff, o.MaxBackoff)
	if v.RetryAfter > 0 {
		wait = v.RetryAfter + retry.Backoff(1, o.Backoff, o.MaxBackoff) // who was told the same second must not come together
	}
	deadline, hasDeadline := c.ctx.Deadline()
	switch {
	case c.ctx.Err() != nil:
		return 0, GaveUpContext
	case inFlight && time.Since(c.waitingSince)+wait > o.MaxInFlight:
		return 0, GaveUpInFlight
	case !inFlight && !c.t.budgets.failed(c.origin()):
		return 0, GaveUpBudget
	case !inFlight && (failed >= o.Attempts || v.serverError && c.failures > c.maxFailures()):
		return 0, GaveUpAttempts
	case v.RetryAfter > o.MaxRetryAfter:
		return 0, GaveUpRetryAfter
	case time.Since(c.begunAt)+wait >= o.Horizon:
		return 0, GaveUpHorizon
	case hasDeadline && time.Until(deadline) <= wait:
		return 0, GaveUpContext
	}
	return wait, ""
}

// maxFailures is how often a bare 500 is tried again.
func (c *call) maxFailures() int {
	if n := c.t.options.Profile.Retries500; n > 0 {
		return n
	}
	return c.t.options.Attempts
}

// report tells the observer.
func (c *call) report(v verdict, retried bool, wait time.Duration) {
	if f := c.t.options.ObserveFunc; f != nil {
		f(c.ctx, AttemptReport{
			Key: c.id, Method: c.request.Method, Origin: c.origin(), Attempt: c.attempts, Status: v.status, Err: v.err,
			Signal: v.name, Retried: retried, Wait: wait, Took: v.took,
		})
	}
}

// sameOrigin returns where a 307 or 308 leads to, if that is where the request went.
func (c *call) sameOrigin(r *http.Response) *url.URL {
	to, err := c.url.Parse(r.Header.Get("Location"))
	if err != nil || r.Header.Get("Location") == "" || originOf(to) != c.origin() || c.hops >= maxHops {
		return nil
	}
	to.User, to.Fragment, to.RawFragment = c.url.User, "", ""
	return to
}

// isAuthorizeError reports whether there was no credential to send with.
func isAuthorizeError(err error) bool {
	var e *authorizeError
	return errors.As(err, &e)
}
