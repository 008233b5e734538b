package cases

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// retryWhile retries for as long as the answer is one to retry, but no longer than within.
func retryWhile(t *run, label string, r wire.Request, within time.Duration,
	again func(*run, wire.Answer) bool,
) wire.Answer {
	began := time.Now()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		a := t.Send(label, r)
		if !again(t, a) || time.Since(began) > within || !t.Pause(pause) {
			return a
		}
	}
}

// settle retries while the request is in flight or refused by a rate limit, but no longer than within.
func settle(t *run, label string, r wire.Request, within time.Duration) wire.Answer {
	return retryWhile(t, label, r, within, unsettled)
}

// unsettled reports whether an answer says to come again: the key is in flight, or a rate limit has refused the
// request.
func unsettled(t *run, a wire.Answer) bool { return busy(t, a) || rateLimited(t, a) }

// away reports an answer of a target that is down, starting or not settled.
func away(t *run, a wire.Answer) bool {
	down := []int{0, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	return unsettled(t, a) || slices.Contains(down, a.Status)
}

// result retries a request whose answer was lost until it gets its result, and notes a FAIL if there is none. A 503 is
// temporary (RFC 9110 §15.6.4), so it is waited out too.
func result(t *run, label string, r wire.Request) (wire.Answer, bool) {
	began := time.Now()
	a := retryWhile(t, label, r, t.recipe.Limits.Wait, func(t *run, a wire.Answer) bool {
		return unsettled(t, a) || a.Status == http.StatusServiceUnavailable
	})
	switch {
	case a.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", a.No, a.Err)
	case busy(t, a):
		t.Failf("%s after the first retry the key is still in flight (%d: %d): clients cannot get the result",
			time.Since(began).Round(time.Second), a.No, a.Status)
	case !a.OK() && !refusedDuplicate(t, a):
		t.Failf("the retry (%d) got %d, not the result: %s", a.No, a.Status, wire.Shorten(a.Body, 200))
	default:
		return a, true
	}
	return a, false
}

// wantOnlyOnce notes a FAIL unless requests of which some answers were lost had as many effects as there are results.
// Results alone do not show what the lost ones did, unless they are marked as replays.
func wantOnlyOnce(t *run, results ...wire.Answer) {
	if !t.Counts() {
		for _, a := range results {
			if !marked(t, a) {
				t.Infof("the answer (%d) does not say whether it is a replay: add count to the recipe to find out", a.No)
				return
			}
		}
	}
	t.WantEffects(len(results), results...)
}

// wantAtMostOne notes a FAIL if the case has had more than one effect so far.
func wantAtMostOne(t *run) bool {
	if !t.Counts() {
		return true
	}
	n := t.MustCount(0)
	if n == 1 {
		n = t.MustCount(1)
	}
	if n > 1 {
		t.Failf("%d effects of one request: an operation that may have run ran again", n)
	}
	return n <= 1
}

// secondsToWait returns how long an answer says to wait, or 0 if it does not say.
func secondsToWait(a wire.Answer) time.Duration {
	n, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || n < 1 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// unknown is how an answer says that the outcome of its request is not known; also what becomes of an error, as
// stored and released are, in the observed profile.
const (
	stored   = "stored"
	released = "released"
	unknown  = "unknown"
)

// saysUnknown reports an error that says that it is not known whether the request was carried out.
func saysUnknown(a wire.Answer) bool {
	text := strings.ToLower(a.Header.Get("Idempotency-Status") + " " + string(a.Plain()))
	return strings.Contains(text, unknown) || strings.Contains(text, "not known")
}
