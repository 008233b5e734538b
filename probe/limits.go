package probe

import (
	"strconv"
	"time"
)

// Send sends a request and waits for the answer. The label says in the timeline what it is for. A rate limit (429) is waited out: the same
// request is sent again, when the target says or with growing rests, for as long as Limits.Wait.
func (t *Trial) Send(label string, r Request) Answer {
	a := t.sendOnce(label, r)
	until := time.Now().Add(t.Recipe.Limits.Wait)
	for rest := 100 * time.Millisecond; t.limited(a); rest *= 2 {
		wait := restOf(a, rest)
		if t.run.hopeless.Load() || time.Now().Add(wait).After(until) {
			t.run.hopeless.Store(true) // the next requests need not wait as long to learn the same
			return t.mind(a)
		}
		if !t.pause(wait) {
			return a
		}
		a = t.sendOnce(label+", after a 429", r)
	}
	t.run.hopeless.Store(false)
	return a
}

// restOf is how long to wait after a 429: what it says, or else.
func restOf(a Answer, otherwise time.Duration) time.Duration {
	if n, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	return otherwise
}

// sendOnce sends a request and takes a rate limit for an answer.
func (t *Trial) sendOnce(label string, r Request) Answer {
	return t.record(label, r, t.run.exchange(t.ctx, r))
}

// limited reports an answer that says that there were too many requests, whatever their keys.
func (t *Trial) limited(a Answer) bool { return a.Status == 429 && !t.busy(a) }

// mind keeps in mind that a rate limit was in the way of something that is judged.
func (t *Trial) mind(a Answer) Answer {
	if t.limited(a) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.limitedAt = a.No
	}
	return a
}

// hindrance is why a FAIL of the case would say nothing of the API; "": it does.
func (t *Trial) hindrance() string {
	switch {
	case t.run.wire.meter.empty():
		return errRequests.Error()
	case t.limitedAt > 0:
		return "a rate limit (429) was in the way (" + itoa(t.limitedAt) + "), and did not end within " + t.Recipe.Limits.Wait.String() +
			": what was found is not judged"
	}
	return ""
}
