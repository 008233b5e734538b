package probe

import (
	"slices"
	"strconv"
	"time"
)

// midway is how long after a slow request its duplicate is sent, and how long before the end it must have been.
const midway = 300 * time.Millisecond

// overlap is a slow request and one that came while it was being carried out.
type overlap struct {
	winner, other Answer // the winner is the one that was carried out
	request       Request
	otherRequest  Request
	rounds        int  // how often it was tried, each time with a new key
	waited        bool // the other one was answered too, once the winner was
}

// overlap sends a slow request and, midway, another: the same one again if other is nil. A second answer that may have come only
// because the machine is slow is not believed the first time.
func (t *Trial) overlap(other func(v Intent) Request) (o overlap, ok bool) {
	for o.rounds = 1; o.rounds <= 3; o.rounds++ {
		v, key := t.Intent(), t.NewKey()
		o.request = t.Keyed(t.From(*t.Recipe.Variants.Slow, v), key)
		o.otherRequest = o.request
		if other != nil {
			o.otherRequest = t.Keyed(other(v), key)
		}
		first, second := t.meanwhile(o.request, o.otherRequest)
		if !t.overlapped(first, second) {
			return o, false
		}
		o.winner, o.other = first, second
		if !first.OK() {
			o.winner, o.other, o.request, o.otherRequest = second, first, o.otherRequest, o.request
		}
		o.waited = second.OK() && first.OK()
		twice := o.waited && t.Recipe.Identity.of(first) != t.Recipe.Identity.of(second)
		early := second.SentAt.Before(first.EndedAt.Add(-midway))
		if !o.waited || twice || early && o.rounds > 1 {
			return o, true
		}
	}
	t.NAf("the target is too slow to send a request while another one is being carried out")
	return o, false
}

// meanwhile sends the second request midway through the first.
func (t *Trial) meanwhile(one, two Request) (first, second Answer) {
	done := make(chan Answer, 1)
	go func() { done <- t.run.exchange(t.ctx, one) }()
	t.pause(midway)
	second = t.run.exchange(t.ctx, two)
	first = t.record("slow request", one, <-done)
	return first, t.record("while it is being carried out", two, second)
}

// overlapped reports whether there is something to look at.
func (t *Trial) overlapped(first, second Answer) bool {
	took := first.EndedAt.Sub(first.SentAt)
	switch {
	case t.limited(first) || t.limited(second):
		t.NAf("a rate limit (429) was in the way (%d, %d): lift it for the probe to have this judged", first.No, second.No)
	case first.Status == 0:
		t.Brokenf("the target did not answer the slow request (%d): %v", first.No, first.Err)
	case !first.OK() && !second.OK():
		t.Brokenf("the target answered the slow request (%d) with %d, and the other (%d) with %d", first.No, first.Status, second.No, second.Status)
	case took < 2*midway && first.OK():
		t.NAf("variants.slow took %s; it must take a second or more", took.Round(time.Millisecond))
	default:
		return true
	}
	return false
}

func inFlight(t *Trial) {
	o, ok := t.overlap(nil)
	if !ok {
		return
	}
	t.counted(o.rounds)
	if o.waited {
		if !t.sameResult([]Answer{o.winner, o.other}) {
			return
		}
		t.Infof("the duplicate (%d) waited for the first one's answer, which helps clients that retry no 409; see that it waits for less than their timeouts", o.other.No)
		return
	}
	t.Observe(func(v *Observed) { v.InFlight = o.other.Status })
	if !t.busy(o.other) && !t.refusedDuplicate(o.other) {
		t.noteOdd(o.other.Status, []Answer{o.other}, 1)
	} else if len(t.Rules.InFlight) == 0 {
		t.Infof("the duplicate (%d) got %d", o.other.No, o.other.Status)
	}
}

func retryAfter(t *Trial) {
	o, ok := t.overlap(nil)
	switch {
	case !ok:
		return
	case o.waited:
		t.NAf("duplicates wait for the first one's answer: there is nothing to come again for")
		return
	}
	after := o.other.Header.Get("Retry-After")
	n, err := strconv.Atoi(after)
	t.Observe(func(v *Observed) { v.RetryAfter = seen(err == nil && n > 0) })
	switch {
	case after == "":
		t.Warnf("the conflict (%d) has no Retry-After", o.other.No)
	case err != nil || n < 1:
		t.Warnf("the conflict (%d) has Retry-After %q, which is not a number of seconds above 0", o.other.No, after)
	}
}

// thenReplay works without a slow variant too, if a burst shows a conflict.
func thenReplay(t *Trial) {
	if t.Recipe.Variants.Slow == nil {
		t.afterBurst()
		return
	}
	o, ok := t.overlap(nil)
	if !ok {
		return
	}
	if a, ok := t.result("retry", o.request); ok {
		t.wantReplay(o.winner, a)
		t.counted(o.rounds)
	}
}

func (t *Trial) afterBurst() {
	r := t.Keyed(t.Fresh(), t.NewKey())
	answers := t.together("of ten at once", slices.Repeat([]Request{r}, 10))
	conflict := slices.ContainsFunc(answers, t.busy)
	t.oneOfMany(r, answers)
	if !conflict && t.Clean() {
		t.NAf("no conflict was seen: the request is too quick. With variants.slow in the recipe there would be one")
	}
}

func inFlightMismatch(t *Trial) {
	slow := *t.Recipe.Variants.Slow
	o, ok := t.overlap(func(v Intent) Request { return t.From(slow, v.Changed(slow)) })
	if !ok {
		return
	}
	a := o.other
	right := slices.Concat(t.Rules.InFlight, t.Rules.Mismatch)
	switch {
	case o.waited && t.Recipe.Identity.of(a) != t.Recipe.Identity.of(o.winner):
		t.Failf("two different requests (%d, %d) were both carried out under one key", o.winner.No, a.No)
	case o.waited && t.Rules.Compares:
		t.Failf("another request (%d) under the same key got the answer of the first (%d)", a.No, o.winner.No)
	case a.Status == 0:
		t.Failf("another request (%d) under a key in flight got no answer: %v", a.No, a.Err)
	case a.ServerError():
		t.Failf("another request (%d) under a key in flight got %d: %s", a.No, a.Status, trimmed(a.Body, 200))
	case len(t.Rules.InFlight) == 0 || o.waited || t.Rules.FailsInFlight:
		t.Infof("another request (%d) under a key in flight got %d", a.No, a.Status)
	case !oneOf(a.Status, right):
		t.Failf("another request (%d) under a key in flight got %d; profile %s has %s", a.No, a.Status, t.Rules.Name, statuses(right))
	}
	t.counted(o.rounds)
}

// halfPatience is how long a half-sent request may hold up a whole one.
const halfPatience = 2 * time.Second

func halfSent(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	half, ok := t.begin(r, max(1, len(r.framed())/2))
	if !ok {
		return
	}
	t.pause(midway) // the target is to have seen it
	whole := make(chan Answer, 1)
	go func() { whole <- t.insist("the whole request", r, halfPatience, t.taken) }()
	select {
	case a := <-whole:
		t.besideHalf(r, half, a)
	case <-time.After(2 * halfPatience):
		t.record("half of the request, given up", r, half.abort())
		t.withoutHalf(r, <-whole)
	}
}

// taken reports an answer that says that somebody has the key, where nobody has a result yet.
func (t *Trial) taken(a Answer) bool { return t.busy(a) || t.refusedDuplicate(a) }

// besideHalf judges the answer to a whole request, while half of it is still held back on another connection.
func (t *Trial) besideHalf(r Request, half *started, a Answer) {
	if !a.OK() {
		t.record("half of the request, given up", r, half.abort())
		t.withoutHalf(r, a)
		return
	}
	rest := t.record("the half-sent request, finished", r, half.finish())
	if rest.OK() || rest.ServerError() {
		t.wantReplay(a, rest)
	}
	t.WantEffects(1, a, rest)
}

// withoutHalf judges the answer to a whole request that had none, or none but conflicts, before the half-sent one was given up.
func (t *Trial) withoutHalf(r Request, a Answer) {
	switch {
	case a.OK():
		t.Warnf("a whole request (%d) waited for its answer until the half-sent one was given up", a.No)
		t.WantEffects(1, a)
	case t.taken(a):
		result := t.insist("retry", r, t.Recipe.Limits.Wait, t.taken)
		if !result.OK() {
			t.Failf("a half-sent request still has the key (%d: %d) %s after it was given up", result.No, result.Status, t.Recipe.Limits.Wait)
			return
		}
		t.Warnf("a whole request (%d) was told that the half-sent one is in flight: until that is given up nobody can use the key", a.No)
		t.WantEffects(1, result)
	case a.Status == 0:
		t.Failf("a whole request (%d) got no answer beside a half-sent one, nor when that was given up: %v", a.No, a.Err)
		t.counted(1)
	default:
		t.Brokenf("the target answered the whole request (%d) with %d: %s", a.No, a.Status, trimmed(a.Body, 200))
	}
}
