package cases

import (
	"cmp"
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// limitedThenNot plays F05. It makes requests until one is refused, and then retries that one. The limit may simply
// last, so the refusal counts as saved only if new requests succeed twice while the refused one still gets a 429.
func limitedThenNot(t *run) {
	r, first := reachLimit(t)
	pause := cmp.Or(secondsToWait(first), 300*time.Millisecond)
	refused := false // the last time, while another request was accepted
	for began := time.Now(); time.Since(began) < t.recipe.Limits.Wait && t.Pause(pause); {
		a := t.sendOnce("retry of the refused one", r)
		if a.Status != first.Status {
			if !a.OK() {
				t.Failf("the request that was refused with 429 (%d) got %d later (%d): %s", first.No, a.Status, a.No, body(a))
			}
			return
		}
		if !t.Pause(pause) {
			return
		}
		fresh := t.sendOnce("another request", t.NewFrom(*t.recipe.Variants.RateLimit))
		switch {
		case !fresh.OK():
			refused, pause = false, 2*pause
		case refused:
			t.Failf("the request that was refused with 429 (%d) is still refused (%d) %s later, while new "+
				"requests (%d) run: the 429 was saved", first.No, a.No, a.SentAt.Sub(first.SentAt).Round(time.Millisecond), fresh.No)
			return
		default:
			refused = true
		}
	}
	t.Skipf("the rate limit of variants.rate_limit did not end within %s", t.recipe.Limits.Wait)
}

// reachLimit sends requests, each with a new key, until one is refused with 429. It sends each only once, since Send
// would wait for the limit to end.
func reachLimit(t *run) (r wire.Request, a wire.Answer) {
	const most = 200
	for range most {
		r = t.NewFrom(*t.recipe.Variants.RateLimit)
		a = t.sendOnce("until the rate limit refuses it", r)
		switch {
		case a.Status == 429:
			return r, a
		case a.Status == 0 || a.ServerError():
			t.Brokenf("variants.rate_limit (%d) got %d: %s", a.No, a.Status, body(a))
		}
	}
	t.Skipf("variants.rate_limit was not refused in %d requests", most)
	return r, a
}
