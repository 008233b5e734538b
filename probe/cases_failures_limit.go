package probe

import (
	"time"
)

// limitedThenNot makes requests until one comes too often, and then makes that one again. It is refused for ever only if other
// requests are not, after the same rest.
func limitedThenNot(t *Trial) {
	r, first, ok := t.reachLimit()
	if !ok {
		return
	}
	rest := restOf(first, 300*time.Millisecond)
	refused := 0 // times in a row that others were let through where this one was not
	for began := time.Now(); time.Since(began) < t.Recipe.Limits.Wait && t.pause(rest); {
		a := t.sendOnce("retry of the refused one", r)
		if a.Status != first.Status {
			t.afterLimit(first, a)
			return
		}
		if !t.pause(rest) {
			return
		}
		fresh := t.sendOnce("another request", t.Keyed(t.From(*t.Recipe.Variants.RateLimit, t.Intent()), t.NewKey()))
		switch {
		case !fresh.OK():
			refused, rest = 0, 2*rest
		case refused > 0:
			t.Failf("the request that was refused with 429 (%d) still is (%d), %s apart, while new ones (%d) are carried out: the 429 was kept",
				first.No, a.No, a.SentAt.Sub(first.SentAt).Round(time.Millisecond), fresh.No)
			return
		default:
			refused++
		}
	}
	t.NAf("the limit of variants.rate_limit did not end within %s", t.Recipe.Limits.Wait)
}

// reachLimit makes requests, each with a new key, until one is refused.
func (t *Trial) reachLimit() (r Request, a Answer, ok bool) {
	const most = 200
	for range most {
		r = t.Keyed(t.From(*t.Recipe.Variants.RateLimit, t.Intent()), t.NewKey())
		a = t.sendOnce("until it is too often", r)
		switch {
		case a.Status == 429:
			return r, a, true
		case a.Status == 0 || a.ServerError():
			t.Brokenf("variants.rate_limit (%d) got %d: %s", a.No, a.Status, orNothing(a.Err))
			return r, a, false
		}
	}
	t.NAf("variants.rate_limit was not refused in %d requests", most)
	return r, a, false
}

// afterLimit judges the first answer that is not 429.
func (t *Trial) afterLimit(first, a Answer) {
	if !a.OK() {
		t.Failf("the request that was refused with 429 (%d) got %d later (%d): %s %s", first.No, a.Status, a.No, trimmed(a.Body, 200), orNothing(a.Err))
	}
}
