package probe

import (
	"time"
)

// busy reports an answer that says that the first request is still being carried out.
func (t *Trial) busy(a Answer) bool {
	if t.refusedDuplicate(a) {
		return false
	}
	if len(t.Rules.InFlight) > 0 {
		return oneOf(a.Status, t.Rules.InFlight)
	}
	return oneOf(a.Status, []int{409, 423, 425, 429})
}

// refusedDuplicate reports the answer to every duplicate where a profile replays nothing.
func (t *Trial) refusedDuplicate(a Answer) bool {
	return !t.Rules.Replays && oneOf(a.Status, t.Rules.Mismatch)
}

// pause waits, and reports whether the run goes on.
func (t *Trial) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-t.ctx.Done():
		return false
	}
}

// settle retries for as long as the answer is to come again, but no longer than within.
func (t *Trial) settle(label string, r Request, within time.Duration) Answer {
	return t.insist(label, r, within, func(a Answer) bool { return t.busy(a) || t.limited(a) })
}

// insist retries for as long as the answer is one to come again for, but no longer than within.
func (t *Trial) insist(label string, r Request, within time.Duration, again func(a Answer) bool) Answer {
	began := time.Now()
	for rest := 50 * time.Millisecond; ; rest = min(2*rest, 500*time.Millisecond) {
		a := t.Send(label, r)
		if !again(a) || time.Since(began) > within || !t.pause(rest) {
			return a
		}
	}
}

// result retries a request whose answer was lost until it gets one.
func (t *Trial) result(label string, r Request) (Answer, bool) {
	began := time.Now()
	a := t.settle(label, r, t.Recipe.Limits.Wait)
	switch {
	case a.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", a.No, a.Err)
	case t.busy(a):
		t.Failf("%s after the first retry the key is still in flight (%d: %d): its result cannot be had",
			time.Since(began).Round(time.Second), a.No, a.Status)
	case !a.OK() && !t.refusedDuplicate(a):
		t.Failf("the retry (%d) got %d, not the result: %s", a.No, a.Status, trimmed(a.Body, 200))
	default:
		return a, true
	}
	return a, false
}

// onlyOnce notes a FAIL unless requests of which some answers were lost had as many effects as there are results. Results alone do not
// show what the lost ones had, unless they say that they are replays.
func (t *Trial) onlyOnce(results ...Answer) {
	if t.Recipe.Count != nil {
		t.WantEffects(len(results), results...)
		return
	}
	for _, a := range results {
		if !t.replayed(a) {
			t.Infof("the answer (%d) does not say whether it is the first one's: add a count to the recipe to know", a.No)
			return
		}
	}
	t.WantEffects(len(results), results...)
}

// begin starts a request but for the last bytes of its body; a connection that cannot be made is noted.
func (t *Trial) begin(r Request, keep int) (*started, bool) {
	s, err := t.run.wire.start(t.ctx, r, keep)
	if err != nil {
		t.Brokenf("the request could not be sent: %v", err)
	}
	return s, err == nil
}
