package probe

import (
	"slices"
	"strings"
	"time"
)

// variant is one that only the API itself can provide, by its name in recipes.
type variant struct {
	name, what string
	of         func(v Variants) *Template
}

func unanswered() variant {
	return variant{"unanswered", "is carried out, and whose answer does not come", func(v Variants) *Template { return v.Unanswered }}
}

func cutOff() variant {
	return variant{"cut_off", "is carried out, and whose answer breaks off", func(v Variants) *Template { return v.CutOff }}
}

func late() variant {
	return variant{"late", "is carried out, and answered too late", func(v Variants) *Template { return v.Late }}
}

func unavailable() variant {
	return variant{"unavailable", "is carried out, and answered 503 on the way back", func(v Variants) *Template { return v.Unavailable }}
}

func unreached() variant {
	return variant{"unreached", "does not reach the work the first time", func(v Variants) *Template { return v.Unreached }}
}

func busyBehind() variant {
	return variant{"busy", "a layer further in says is in flight, the first time", func(v Variants) *Template { return v.Busy }}
}

func (v variant) need() Need {
	return needs("variants."+v.name+": a request that "+v.what, func(r *Recipe) bool { return v.of(r.Variants) != nil })
}

// behind: what becomes of a key when the work's answer does not come through to the layer that knows about keys.
func behind() []Case {
	const kept = "An answer that the layer has made up, because it has none, must not free the key, whatever the profile says of server errors."
	const twice = "The work was done. Each retry does it again."
	return []Case{
		{
			ID: "F13", Name: "no answer from behind", Checks: "A request whose answer is lost between the work and the layer is not carried out again.",
			Source: always, Severity: Critical, Needs: []Need{unanswered().need()}, Why: twice, Fix: kept, run: unanswered().lost,
		},
		{
			ID: "F14", Name: "half an answer", Checks: "A request whose answer breaks off between the work and the layer is not carried out again.",
			Source: always, Severity: Critical, Needs: []Need{cutOff().need()}, Why: twice, Fix: kept, run: cutOff().lost,
		},
		{
			ID: "F15", Name: "late answer", Checks: "A request whose answer comes when the layer does not wait for it any more is not carried out again.",
			Source: always, Severity: Critical, Needs: []Need{late().need()}, Why: twice, Fix: kept, run: late().lost,
		},
		{
			ID: "F16", Name: "503 from between", Checks: "A request that was carried out, and answered 503 by a gateway on the way back, is not carried out again.",
			Source: always + "; RFC 9110 §15.6.4", Severity: Critical, Needs: []Need{unavailable().need()}, Why: twice,
			Fix: "Take a 503 for \"nothing happened\" only if it says so, such as by Retry-After.", run: unavailable().lost,
		},
		{
			ID: "F17", Name: "not reached", Checks: "A request that did not reach the work is carried out by a retry.", Source: "RFC 9113 §8.7; " + always,
			Severity: Major, Needs: []Need{unreached().need()}, Why: "Every restart of the API behind leaves keys that can never be used.",
			Fix: "Free the key where nothing was sent: no connection, REFUSED_STREAM, a stream above the last one of a GOAWAY.", run: unreached().carriedOutLater,
		},
		{
			ID: "F18", Name: "unknown is said", Checks: "The answer to a request of unknown outcome says so, and nothing that contradicts it.",
			Source: always + "; Stripe (Stripe-Should-Retry)", Severity: Major, Needs: []Need{needs("one of variants.unanswered, cut_off and late", func(r *Recipe) bool {
				return r.Variants.lost() != nil
			})},
			Why: "A program that reads \"refused\" sends the request again under a new key; one that reads \"try again\" does so for nothing.",
			Fix: "Word it as a server error of unknown outcome, without the marker of a replay, and say that a retry will not help where the profile can.",
			run: unknownIsSaid,
		},
	}
}

// lost is a request of which nobody learns the outcome; nil if the recipe has none.
func (v Variants) lost() *Template {
	for _, t := range []*Template{v.Unanswered, v.CutOff, v.Late} {
		if t != nil {
			return t
		}
	}
	return nil
}

// retriesOfLost is how often a client retries that does not learn the outcome.
const retriesOfLost = 3

// lost sends a variant whose answer does not come through, and retries it. It may have one effect. What the retries are told is
// another case's matter.
func (v variant) lost(t *Trial) {
	r := t.Keyed(t.From(*v.of(t.Recipe.Variants), t.Intent()), t.NewKey())
	first := t.Send("variants."+v.name, r)
	if first.OK() && first.Err == nil {
		t.NAf("variants.%s got %d: its answer must not come through", v.name, first.Status)
		return
	}
	answers := []Answer{first}
	for range retriesOfLost {
		answers = append(answers, t.settle("retry", r, t.Recipe.Limits.Wait))
	}
	if last := answers[retriesOfLost]; t.busy(last) {
		t.Warnf("after %s the key is still in flight (%d: %d): its outcome cannot be had", t.Recipe.Limits.Wait, last.No, last.Status)
	}
	t.ranOnce(v.name, answers)
}

// ranOnce notes a FAIL if a request whose answer was lost has had more than one effect.
func (t *Trial) ranOnce(name string, answers []Answer) {
	if t.Recipe.Count == nil {
		results := slices.DeleteFunc(slices.Clone(answers), func(a Answer) bool { return !a.OK() || t.Recipe.Identity.of(a) == "" })
		switch n, _ := t.Effects(1, results...); {
		case n > 1:
			t.ranAgain = true
			t.Failf("the answers show %s of one request: what may have been done was done again", things(n))
		case len(results) == 0 || !t.replayed(results[0]):
			t.Infof("no answer shows whether a retry ran again: add a count to the recipe to know")
		}
		return
	}
	switch n, err := t.Effects(1, answers...); {
	case err != nil:
		t.Brokenf("the effects could not be counted: %v", err)
	case n == 0:
		t.NAf("variants.%s had no effect: it must be carried out", name)
	case n > 1:
		t.ranAgain = true
		t.Failf("%s of one request, whose first answer was lost (%d: %d): each retry may run it again", effects(n), answers[0].No, answers[0].Status)
	}
}

// carriedOutLater sends a variant that is refused the first time without anything being done, and retries it until it is carried out.
func (v variant) carriedOutLater(t *Trial) {
	r := t.Keyed(t.From(*v.of(t.Recipe.Variants), t.Intent()), t.NewKey())
	first := t.Send("variants."+v.name, r)
	if first.OK() {
		t.NAf("variants.%s got %d: it must be refused the first time", v.name, first.Status)
		return
	}
	a := t.insist("retry", r, t.Recipe.Limits.Wait, func(a Answer) bool { return !a.OK() })
	if !a.OK() {
		t.Failf("a request that was refused with %d (%d) before anything was done still gets %d (%d) %s later: the refusal was kept",
			first.Status, first.No, a.Status, a.No, a.SentAt.Sub(first.SentAt).Round(100*time.Millisecond))
		return
	}
	t.WantEffects(1, a)
}

// unknownIsSaid looks at how an unknown outcome is worded, at first and to a retry.
func unknownIsSaid(t *Trial) {
	r := t.Keyed(t.From(*t.Recipe.Variants.lost(), t.Intent()), t.NewKey())
	first := t.Send("its answer is lost", r)
	if first.OK() && first.Err == nil {
		t.NAf("the request got %d: its answer must not come through", first.Status)
		return
	}
	again := t.settle("retry", r, t.Recipe.Limits.Wait)
	for _, a := range []Answer{first, again} {
		t.wantServersFault(a)
	}
	switch {
	case again.Status == 0 || again.OK() || t.busy(again) || t.refusedDuplicate(again): // there is an answer after all, or none yet
		return
	case !saysUnknown(again):
		t.Warnf("the retry (%d) got %d, which does not say that the outcome is unknown: %s", again.No, again.Status, trimmed(again.Body, 200))
	case t.replayed(again) && !first.Same(again):
		t.Failf("the retry (%d) got %d with the marker of a replay, and nothing is replayed: the first answer (%d) was %s", again.No, again.Status,
			first.No, statusOr(first, "none"))
	}
	t.wantNoRetry(again)
}

// wantServersFault notes a FAIL if an answer to a request that may have been carried out reads as if nothing had happened.
func (t *Trial) wantServersFault(a Answer) {
	body := strings.ToLower(string(a.plain()))
	status, _, _ := strings.Cut(a.Header.Get("Idempotency-Status"), ";")
	switch {
	case a.Status == 0 || a.Status < 400 || t.busy(a) || t.refusedDuplicate(a):
	case !a.ServerError():
		t.Failf("the answer to a request of unknown outcome (%d) is %d, as if it were the caller's mistake: %s", a.No, a.Status, trimmed(a.Body, 200))
	case t.Rules.CallersFault != "" && strings.Contains(string(a.plain()), t.Rules.CallersFault):
		t.Failf("the answer to a request of unknown outcome (%d) is worded as the caller's mistake, %s: %s", a.No, t.Rules.CallersFault, trimmed(a.Body, 200))
	case status != "" && status != unknown && strings.Contains(body, unknown):
		t.Failf("the answer (%d) contradicts itself: Idempotency-Status is %q, and its body says that the outcome is unknown", a.No, status)
	}
}

// wantNoRetry looks for the profile's word that a retry will get the same again.
func (t *Trial) wantNoRetry(a Answer) {
	signal := t.Rules.NoRetry
	if got := a.Header.Get(signal.Name); signal.Name != "" && a.ServerError() && got != signal.Value {
		t.Warnf("the answer (%d) will not change, and does not say %s: %s: clients retry it until they give up", a.No, signal.Name, signal.Value)
	}
}

func statusOr(a Answer, none string) string {
	if a.Status == 0 {
		return none
	}
	return itoa(a.Status)
}
