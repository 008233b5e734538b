package probe

import (
	"strings"
)

const (
	draft  = "draft-ietf-httpapi-idempotency-key-header-07"
	always = "at most once, one answer"
)

// basics: a key runs once, and everybody gets the first answer.
func basics() []Case {
	return []Case{
		{
			ID: "B01", Name: "first request", Checks: "A request with a new key is carried out.", Source: draft + " §2.6", Severity: Critical, Safe: true,
			Why: "Nothing else can be looked at.", Fix: "Look at the answer: does the recipe send what the API wants?", run: firstRequest,
		},
		{
			ID: "B02", Name: "retry", Checks: "The same request again gets the first answer, and nothing happens twice.", Source: draft + " §2.6",
			Severity: Critical, Safe: true, Why: "A client that has not heard the answer retries, and pays twice.",
			Fix: "Save the answer with the key in one atomic step, and look the key up before the work begins.", run: retry,
		},
		{
			ID: "B03", Name: "ten retries", Checks: "However often it is retried, it is one effect.", Source: always, Severity: Critical, Safe: true,
			Why: "Clients, proxies and queues retry more than once.", Fix: "Do not count attempts: the key alone decides.", run: tenRetries,
		},
		{
			ID: "B04", Name: "two keys", Checks: "Two keys are two effects, though the bodies are the same.", Source: always, Severity: Major, Safe: true,
			Why: "Somebody who buys the same thing twice gets it once.", Fix: "Tell requests apart by the key, not by the body.", run: twoKeys,
		},
	}
}

func firstRequest(t *Trial) {
	r := t.Fresh()
	a := t.Send("first", t.Keyed(r, t.NewKey()))
	if !a.OK() {
		t.firstRefused(r, a)
		return
	}
	if t.Recipe.Identity.of(a) == "" {
		t.Brokenf("the answer does not say what was created: identity finds nothing in it%s", t.Recipe.Identity.advice(a))
		return
	}
	t.WantEffects(1, a)
}

// firstRefused looks at why: because of the key, or because the request is never carried out.
func (t *Trial) firstRefused(r Request, a Answer) {
	if a.Status == 0 {
		t.Brokenf("the target did not answer the first request: %v", a.Err)
		return
	}
	bare := t.Send("without a key", r)
	if bare.OK() {
		t.Failf("with a key the request (%d) got %d, without one (%d) it is carried out: %s", a.No, a.Status, bare.No, trimmed(a.Body, 200))
		return
	}
	if to := a.Header.Get("Location"); a.Status >= 300 && a.Status < 400 && to != "" {
		t.Brokenf("the target sends the first request elsewhere (%d), to %s: write that as the target", a.Status, trimmed([]byte(to), 200))
		return
	}
	t.Brokenf("the target refused the first request with %d: %s", a.Status, trimmed(a.Body, 200))
}

func retry(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	again := t.Send("retry", r)
	t.wantReplay(first, again)
	t.WantEffects(1, first, again)
}

func tenRetries(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	answers := []Answer{first}
	for range 10 {
		a := t.Send("retry", r)
		if !t.wantReplay(first, a) {
			break
		}
		answers = append(answers, a)
	}
	t.WantEffects(1, answers...)
}

func twoKeys(t *Trial) {
	r := t.Fresh()
	one, ok := t.Works("one key", t.Keyed(r, t.NewKey()))
	if !ok {
		return
	}
	two, ok := t.Works("another key", t.Keyed(r, t.NewKey()))
	if ok {
		t.WantEffects(2, one, two)
	}
}

// wantReplay notes a FAIL unless a retry's answer is the first one again, as the profile has it.
func (t *Trial) wantReplay(first, again Answer) bool {
	switch {
	case again.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
	case !t.Rules.Replays:
		if !oneOf(again.Status, t.Rules.Mismatch) {
			t.Failf("the retry (%d) got %d; profile %s refuses it with %s", again.No, again.Status, t.Rules.Name, statuses(t.Rules.Mismatch))
			return false
		}
		return true
	case !again.OK():
		t.Failf("the retry (%d) got %d, not the first answer: %s", again.No, again.Status, trimmed(again.Body, 200))
	case t.Rules.SameBytes && !first.Same(again):
		t.Failf("the retry (%d) got another answer: %s", again.No, difference(first, again))
	case t.Recipe.Identity.of(first) != t.Recipe.Identity.of(again):
		t.Failf("the retry (%d) shows %q, the first answer %q: it ran again", again.No, t.Recipe.Identity.of(again), t.Recipe.Identity.of(first))
	default:
		return true
	}
	return false
}

// difference says where two answers differ.
func difference(a, b Answer) string {
	if a.Status != b.Status {
		return "status " + statuses([]int{b.Status}) + " instead of " + statuses([]int{a.Status})
	}
	return "body " + trimmed(b.Body, 120) + " instead of " + trimmed(a.Body, 120)
}

func oneOf(status int, of []int) bool {
	for _, s := range of {
		if s == status {
			return true
		}
	}
	return false
}

// statuses is a list of statuses for people.
func statuses(all []int) string {
	if len(all) == 0 {
		return "any status"
	}
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = itoa(s)
	}
	return strings.Join(words, " or ")
}
