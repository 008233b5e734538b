package cases

import (
	"slices"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// midway is how long after a slow request its duplicate is sent, and how long before the end that must have been.
const midway = 300 * time.Millisecond

// overlap is the result of a slow request and another one that arrived while the first was running.
type overlap struct {
	winner, other wire.Answer // the winner is the one that was carried out
	request       wire.Request
	rounds        int  // how often it was tried, each time with a new key
	waited        bool // the other one was answered too, once the winner was
}

// overlapping sends a slow request and, midway, another one: the same again if other is nil. On a slow machine the
// second request may arrive after the first has ended. That looks like a server that lets duplicates wait, so such an
// answer is believed only if it occurs again with a new key.
func overlapping(t *run, other func(v probe.Intent) wire.Request) (o overlap) {
	for o.rounds = 1; o.rounds <= 3; o.rounds++ {
		v, key := t.intents.Next(), newKey(t)
		o.request = t.Keyed(t.From(*t.recipe.Variants.Slow, v), key)
		otherRequest := o.request
		if other != nil {
			otherRequest = t.Keyed(other(v), key)
		}
		first, second := meanwhile(t, o.request, otherRequest)
		o.winner, o.other = first, second
		if !first.OK() {
			o.winner, o.other, o.request = second, first, otherRequest
		}
		o.waited = second.OK() && first.OK()
		twice := o.waited && t.id(first) != t.id(second)
		early := second.SentAt.Before(first.EndedAt.Add(-midway))
		if !o.waited || twice || early && o.rounds > 1 {
			return o
		}
	}
	t.Skipf("the target is too slow: the second request did not arrive while the first one ran")
	return o
}

// meanwhile sends the second request midway through the first. It ends the case if the answers show nothing about
// requests in flight.
func meanwhile(t *run, one, two wire.Request) (first, second wire.Answer) {
	done := make(chan wire.Answer, 1)
	go func() { done <- t.client.Do(t.Context(), one) }()
	t.Pause(midway)
	second = t.client.Do(t.Context(), two)
	first = t.record("slow request", one, <-done)
	second = t.record("while it runs", two, second)
	took := first.EndedAt.Sub(first.SentAt)
	switch {
	case rateLimited(t, first) || rateLimited(t, second):
		t.Skipf("a rate limit (429) got in the way (%d, %d): lift it for the probe to have this judged", first.No, second.No)
	case first.Status == 0:
		t.Brokenf("the target did not answer the slow request (%d): %v", first.No, first.Err)
	case !first.OK() && !second.OK():
		t.Brokenf("the target answered the slow request (%d) with %d, and the other (%d) with %d", first.No, first.Status,
			second.No, second.Status)
	case took < 2*midway && first.OK():
		t.Skipf("variants.slow took %s; it must take a second or more", took.Round(time.Millisecond))
	}
	return first, second
}

// inFlight plays C03. A refusal and waiting are both right; the case records which of them the API does.
func inFlight(t *run) {
	o := overlapping(t, nil)
	t.WantCount(o.rounds)
	if o.waited {
		if wantSameResult(t, []wire.Answer{o.winner, o.other}) {
			t.Infof("the duplicate (%d) waited for the first answer, which helps clients that do not retry a "+
				"409; check that it waits for less than their timeouts", o.other.No)
		}
		return
	}
	t.Observe(func(v *probe.Observed) { v.InFlight = o.other.Status })
	if !taken(t, o.other) {
		noteOdd(t, []wire.Answer{o.other}, 1)
	} else if len(t.rules.InFlight) == 0 {
		t.Infof("the duplicate (%d) got %d", o.other.No, o.other.Status)
	}
}

// whenToRetry plays C04. RFC 9110 §10.2.3 also allows a date in Retry-After, which many clients do not parse.
func whenToRetry(t *run) {
	o := overlapping(t, nil)
	if o.waited {
		t.Skipf("duplicates wait for the first answer, so there is no refusal to judge")
	}
	after := o.other.Header.Get("Retry-After")
	n, err := strconv.Atoi(after)
	t.Observe(func(v *probe.Observed) { v.RetryAfter = seen(err == nil && n > 0) })
	switch {
	case after == "":
		t.Warnf("the conflict (%d) has no Retry-After", o.other.No)
	case err != nil || n < 1:
		t.Warnf("the conflict (%d) has Retry-After %q, which is not a number of seconds above 0", o.other.No, after)
	}
}

// thenReplay plays C05. Without a slow variant it hopes for a conflict in a burst, and ends with N/A if none occurs.
func thenReplay(t *run) {
	if t.recipe.Variants.Slow == nil {
		r := t.New()
		answers := together(t, "of ten at once", slices.Repeat([]wire.Request{r}, 10))
		wantOneResult(t, r, answers)
		t.WantCount(1)
		if t.Clean() && !slices.ContainsFunc(answers, func(a wire.Answer) bool { return busy(t, a) }) {
			t.Skipf("no conflict was seen, because the request is too fast: add variants.slow to the recipe")
		}
		return
	}
	o := overlapping(t, nil)
	if a, ok := result(t, "retry", o.request); ok {
		wantReplay(t, o.winner, a)
		t.WantCount(o.rounds)
	}
}

// inFlightMismatch plays C06. The draft does not say whether the conflict or the mismatch is reported first, so both
// statuses are right.
func inFlightMismatch(t *run) {
	slow := *t.recipe.Variants.Slow
	o := overlapping(t, func(v probe.Intent) wire.Request { return t.From(slow, v.Changed(slow)) })
	a := o.other
	right := slices.Concat(t.rules.InFlight, t.rules.Mismatch)
	switch {
	case o.waited && t.id(a) != t.id(o.winner):
		t.Failf("two different requests (%d, %d) both ran under one key", o.winner.No, a.No)
	case o.waited && t.rules.Compares:
		t.Failf("another request (%d) with the same key got the first answer (%d)", a.No, o.winner.No)
	case !wantAnswer(t, "another request with a key in flight", a):
	case len(t.rules.InFlight) == 0 || o.waited || t.rules.FailsInFlight:
		t.Infof("another request (%d) with a key in flight got %d", a.No, a.Status)
	case !slices.Contains(right, a.Status):
		t.Failf("another request (%d) with a key in flight got %d; profile %s says %s", a.No, a.Status, t.rules.Name,
			statuses(right))
	}
	t.WantCount(o.rounds)
}
