package probe

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// pairs tries more than once: the window of a race is small.
func pairs(t *Trial) {
	const fewest, most = 3, 10
	began := time.Now()
	n := 0
	for ok := true; ok && n < most && (n < fewest || time.Since(began) < time.Second); n++ {
		r := t.Keyed(t.Fresh(), t.NewKey())
		_, ok = t.settled(r, t.together("of two at once", slices.Repeat([]Request{r}, 2)))
	}
	t.counted(n)
}

func burst(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	n := t.Recipe.Limits.Burst
	t.oneOfMany(r, t.together(fmt.Sprintf("of %d at once", n), slices.Repeat([]Request{r}, n)))
}

func burstOverHTTP2(t *Trial) {
	const streams = 20
	r := t.Keyed(t.Fresh(), t.NewKey())
	answers, err := t.run.wire.streams(t.ctx, slices.Repeat([]Request{r}, streams))
	switch {
	case errors.Is(err, errNoHTTP2):
		t.NAf("the target speaks no HTTP/2 on this address")
		return
	case err != nil:
		t.Brokenf("an HTTP/2 connection could not be made: %v", err)
		return
	}
	for i, a := range answers {
		answers[i] = t.record("stream of one HTTP/2 connection", r, a)
	}
	t.oneOfMany(r, answers)
}

// together sends requests at once, each on a connection of its own.
func (t *Trial) together(label string, requests []Request) []Answer {
	answers := t.run.wire.burst(t.ctx, requests)
	for i, a := range answers {
		answers[i] = t.record(label, requests[i], a)
	}
	return answers
}

// oneOfMany notes a FAIL unless the same requests at once had one effect.
func (t *Trial) oneOfMany(r Request, answers []Answer) {
	t.settled(r, answers)
	t.counted(1)
}

// settled judges the answers to the same request sent many times at once, and then asks for the result.
func (t *Trial) settled(r Request, answers []Answer) (result Answer, ok bool) {
	done, waiting := t.sortBurst(answers)
	if !t.sameResult(done) || !t.Clean() {
		return result, false
	}
	if len(done) == 0 && waiting == len(answers) {
		t.Failf("all %d were told that another one is being carried out, and none was: who holds the key is told to wait for itself", waiting)
	}
	result, ok = t.result("retry", r)
	if ok && len(done) > 0 {
		ok = t.wantReplay(done[0], result)
	}
	return result, ok
}

// counted adds to what is wrong how many effects there were.
func (t *Trial) counted(want int) {
	if t.Recipe.Count != nil {
		t.WantEffects(want)
	}
}

// sortBurst finds the answers that are results, and counts those that say to wait. Whatever else came is noted.
func (t *Trial) sortBurst(answers []Answer) (done []Answer, waiting int) {
	odd := map[int][]Answer{}
	for _, a := range answers {
		switch {
		case a.OK():
			done = append(done, a)
		case t.busy(a) || t.refusedDuplicate(a):
			waiting++
		default:
			odd[a.Status] = append(odd[a.Status], a)
		}
	}
	for status, these := range odd {
		t.noteOdd(status, these, len(answers))
	}
	return done, waiting
}

// noteOdd judges answers to duplicates that are neither a result nor a conflict.
func (t *Trial) noteOdd(status int, these []Answer, all int) {
	which := fmt.Sprintf("%d of %d (the first is %d)", len(these), all, these[0].No)
	switch {
	case status == 0:
		t.Failf("%s got no answer: %v", which, these[0].Err)
	case status >= 500:
		t.Failf("%s got %d: %s", which, status, trimmed(these[0].Body, 200))
	case t.limited(these[0]):
		t.Infof("%s were refused by a rate limit (429)", which)
	case t.Rules.FailsInFlight:
	case len(t.Rules.InFlight) == 0:
		t.Infof("%s got %d: %s", which, status, trimmed(these[0].Body, 200))
	default:
		t.Failf("%s got %d; profile %s has %s while the first is being carried out: %s",
			which, status, t.Rules.Name, statuses(t.Rules.InFlight), trimmed(these[0].Body, 200))
	}
}

// sameResult notes a FAIL unless all results show the same thing.
func (t *Trial) sameResult(done []Answer) bool {
	for i := 1; i < len(done); i++ {
		one, other := t.Recipe.Identity.of(done[0]), t.Recipe.Identity.of(done[i])
		switch {
		case one != other:
			t.Failf("answer %d shows %q, answer %d shows %q: the request ran more than once", done[0].No, one, done[i].No, other)
			return false
		case t.Rules.SameBytes && !done[0].Same(done[i]):
			t.Failf("answers %d and %d differ: %s", done[0].No, done[i].No, difference(done[0], done[i]))
			return false
		}
	}
	return true
}

func manyKeys(t *Trial) {
	many := min(200, 4*t.Recipe.Limits.Burst)
	requests := make([]Request, many)
	for i := range requests {
		requests[i] = t.Keyed(t.Fresh(), t.NewKey())
	}
	answers := t.together("one of many keys", requests)
	of := map[string]Answer{}
	var done []Answer
	var kept []Request
	for i, a := range answers {
		switch id := t.Recipe.Identity.of(a); {
		case a.Status == 429 || a.Status == 503:
		case !a.OK():
			t.Failf("a new key (%d) among %d at once got %d: %s %v", a.No, many, a.Status, trimmed(a.Body, 200), orNothing(a.Err))
			t.counted(many)
			return
		case of[id].No != 0:
			t.Failf("two keys (%d, %d) were answered with the same thing, %q", of[id].No, a.No, id)
			return
		default:
			of[id] = a
			done, kept = append(done, a), append(kept, requests[i])
		}
	}
	if refused := many - len(done); refused > 0 {
		t.Infof("%d of %d were refused for being too many", refused, many)
	}
	if !t.WantEffects(len(done), done...) {
		return
	}
	for i := 0; i < len(done); i += 20 {
		if !t.wantReplay(done[i], t.settle("retry of one", kept[i], time.Second)) {
			return
		}
	}
}

func orNothing(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
