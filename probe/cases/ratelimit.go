package cases

import (
	"cmp"
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// limitedThenNot makes requests until one is refused for coming too often, and then retries that one. The refusal was
// kept only if other requests are accepted after the same pause.
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
			t.Failf("the request that was refused with 429 (%d) still is (%d), %s apart, while new ones (%d) are "+
				"carried out: the "+
				"429 was kept", first.No, a.No, a.SentAt.Sub(first.SentAt).Round(time.Millisecond), fresh.No)
			return
		default:
			refused = true
		}
	}
	t.Skipf("the limit of variants.rate_limit did not end within %s", t.recipe.Limits.Wait)
}

// reachLimit makes requests, each with a new key, until one is refused.
func reachLimit(t *run) (r wire.Request, a wire.Answer) {
	const most = 200
	for range most {
		r = t.NewFrom(*t.recipe.Variants.RateLimit)
		a = t.sendOnce("until it is too often", r)
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
