package cases

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// pairs plays C01. The window of a race is small, so it tries at least three times, and for about a second if that
// allows for more. It stops early when a pair has shown the race.
func pairs(t *run) {
	const fewest, most = 3, 10
	began := time.Now()
	n := 0
	for ok := true; ok && n < most && (n < fewest || time.Since(began) < time.Second); n++ {
		r := t.New()
		ok = wantOneResult(t, r, together(t, "of two at once", slices.Repeat([]wire.Request{r}, 2)))
	}
	t.WantCount(n)
}

// burst plays C02. More requests at once hit smaller windows than the pairs of C01.
func burst(t *run) {
	r := t.New()
	n := t.recipe.Limits.Burst
	wantOneResult(t, r, together(t, fmt.Sprintf("of %d at once", n), slices.Repeat([]wire.Request{r}, n)))
	t.WantCount(1)
}

// burstOverHTTP2 plays C07. The streams of one connection arrive closer together than requests on separate connections.
func burstOverHTTP2(t *run) {
	const streams = 20
	r := t.New()
	answers, err := t.client.Streams(t.Context(), slices.Repeat([]wire.Request{r}, streams))
	switch {
	case errors.Is(err, wire.ErrNoHTTP2):
		t.Skipf("the target does not support HTTP/2 at this address")
	case err != nil:
		t.Brokenf("no HTTP/2 connection to the target: %v", err)
	}
	for i, a := range answers {
		answers[i] = t.record("stream of one HTTP/2 connection", r, a)
	}
	wantOneResult(t, r, answers)
	t.WantCount(1)
}

// together sends requests at once, each on its own connection. The answers are in the order of the requests.
func together(t *run, label string, requests []wire.Request) []wire.Answer {
	answers := t.client.Burst(t.Context(), requests)
	for i, a := range answers {
		answers[i] = t.record(label, requests[i], a)
	}
	return answers
}

// wantOneResult judges the answers to the same request sent many times at once, and then retries it for the result. The
// retry shows whether answers of "in flight" were saved, and whether anything ran if nothing succeeded.
func wantOneResult(t *run, r wire.Request, answers []wire.Answer) bool {
	done, waiting := sortBurst(t, answers)
	if !wantSameResult(t, done) || !t.Clean() {
		return false
	}
	if len(done) == 0 && waiting == len(answers) {
		t.Failf("all %d were told that another one is running, but none ran: the holder of the key waits for "+
			"itself",
			waiting)
	}
	a, ok := result(t, "retry", r)
	return ok && (len(done) == 0 || wantReplay(t, done[0], a))
}

// crowd is from how many requests at once on a 503 may be a refusal for the load. Of fewer it is a server error.
const crowd = 10

// refusedForLoad reports an answer that says that there were too many requests, of so many that were sent at once. It
// is not a fault: nothing was done, and the client comes again with its key.
func refusedForLoad(a wire.Answer, atOnce int) bool {
	return a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable && atOnce >= crowd
}

// sortBurst returns the answers that are results, and counts those that say to wait. It notes all other answers,
// grouped by status: fifty findings of one kind would hide the rest.
func sortBurst(t *run, answers []wire.Answer) (done []wire.Answer, waiting int) {
	odd := map[int][]wire.Answer{}
	for _, a := range answers {
		switch {
		case a.OK():
			done = append(done, a)
		case taken(t, a):
			waiting++
		default:
			odd[a.Status] = append(odd[a.Status], a)
		}
	}
	for status, these := range odd {
		if refusedForLoad(these[0], len(answers)) {
			t.Infof("%d of %d requests were refused with %d because there were too many", len(these), len(answers), status)
			continue
		}
		noteOdd(t, these, len(answers))
	}
	return done, waiting
}

// noteOdd judges answers to duplicates that are neither a result nor a conflict. All of them have the same status.
func noteOdd(t *run, these []wire.Answer, all int) {
	first := these[0]
	which := fmt.Sprintf("%d of %d (the first is %d)", len(these), all, first.No)
	switch {
	case first.Status == 0:
		t.Failf("%s got no answer: %v", which, first.Err)
	case first.ServerError():
		t.Failf("%s got %d: %s", which, first.Status, body(first))
	case t.rules.FailsInFlight:
	case len(t.rules.InFlight) == 0:
		t.Infof("%s got %d: %s", which, first.Status, body(first))
	default:
		t.Failf("%s got %d; profile %s answers %s while the first request runs: %s", which, first.Status, t.rules.Name,
			statuses(t.rules.InFlight), body(first))
	}
}

// wantSameResult notes a FAIL unless all results show the same thing, byte for byte if the profile asks for it.
func wantSameResult(t *run, done []wire.Answer) bool {
	for i := 1; i < len(done); i++ {
		switch one, other := done[0], done[i]; {
		case t.id(one) != t.id(other):
			t.Failf("answer %d shows %q, answer %d shows %q: the request ran more than once", one.No, t.id(one), other.No,
				t.id(other))
			return false
		case t.rules.SameBytes && !one.Same(other):
			t.Failf("answers %d and %d differ: %s", one.No, other.No, difference(one, other))
			return false
		}
	}
	return true
}

// manyKeys plays C08. It judges only the requests that were not refused for the load. It then retries one key in
// twenty: a server that mixes answers up under load may save them mixed up.
func manyKeys(t *run) {
	many := min(200, 4*t.recipe.Limits.Burst)
	requests := make([]wire.Request, many)
	for i := range requests {
		requests[i] = t.New()
	}
	shownBy := map[string]int{} // the answer that shows an identity
	var done []wire.Answer
	var kept []wire.Request
	for i, a := range together(t, "one of many keys", requests) {
		switch id := t.id(a); {
		case refusedForLoad(a, many):
		case !a.OK():
			t.Failf("a new key (%d) among %d at once got %d: %s", a.No, many, a.Status, body(a))
			t.WantCount(many)
			return
		case shownBy[id] != 0:
			t.Failf("the answers to two keys (%d, %d) show the same thing, %q", shownBy[id], a.No, id)
			return
		default:
			shownBy[id] = a.No
			done, kept = append(done, a), append(kept, requests[i])
		}
	}
	if len(done) == 0 {
		t.Brokenf("all %d requests were refused because there were too many: lower limits.burst in the recipe", many)
	}
	if refused := many - len(done); refused > 0 {
		t.Infof("%d of %d requests were refused because there were too many", refused, many)
	}
	if !t.WantEffects(len(done), done...) {
		return
	}
	for i := 0; i < len(done); i += 20 {
		if !wantReplay(t, done[i], settle(t, "retry of one", kept[i], time.Second)) {
			return
		}
	}
}
