package cases

import (
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// layered is a variant that only an API with a layer in front of it can have, by its name in recipes.
type layered struct {
	need
	name string
	of   func(v *variants) *template
}

func behindLayer(name, what string, of func(v *variants) *template) layered {
	return layered{variant(name+": a request that "+what, of), name, of}
}

var (
	unanswered = behindLayer("unanswered", "is carried out, and whose answer does not come",
		func(v *variants) *template { return v.Unanswered })
	cutOff = behindLayer("cut_off", "is carried out, and whose answer breaks off",
		func(v *variants) *template { return v.CutOff })
	late = behindLayer("late", "is carried out, and answered too late",
		func(v *variants) *template { return v.Late })
	unavailable = behindLayer("unavailable", "is carried out, and answered 503 on the way back",
		func(v *variants) *template { return v.Unavailable })
	unreached = behindLayer("unreached", "does not reach the work the first time",
		func(v *variants) *template { return v.Unreached })
	busyBehind = behindLayer("busy", "a layer further in says is in flight, the first time",
		func(v *variants) *template { return v.Busy })

	lostVariant = need{
		"one of variants.unanswered, cut_off and late",
		func(r *recipe) bool { return lost(&r.Variants) != nil },
	}
)

// lost is a request whose outcome does not become known; nil if the recipe has none.
func lost(v *variants) *template {
	for _, t := range []*template{v.Unanswered, v.CutOff, v.Late} {
		if t != nil {
			return t
		}
	}
	return nil
}

const (
	madeUp = "An answer that the layer has made up, because it has none, must not free the key, even if the profile " +
		"frees it " +
		"after server errors."
	runsAgain = "The work was done. Each retry does it again."
)

// behind: what becomes of a key when the work's answer does not reach the layer that knows about keys.
func behind(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "F13", Name: "no answer from behind", Severity: probe.Critical,
			Checks: "A request whose answer is lost between the work and the layer is not carried out again.",
			Why:    runsAgain,
			Fix:    madeUp,
			Source: always, Needs: s.needs(unanswered.need), Play: s.play(unanswered.lost),
		},
		{
			ID: "F14", Name: "half an answer", Severity: probe.Critical,
			Checks: "A request whose answer breaks off between the work and the layer is not carried out again.",
			Why:    runsAgain,
			Fix:    madeUp,
			Source: always, Needs: s.needs(cutOff.need), Play: s.play(cutOff.lost),
		},
		{
			ID: "F15", Name: "late answer", Severity: probe.Critical,
			Checks: "A request whose answer comes when the layer does not wait for it any more is not carried out " +
				"again.",
			Why:    runsAgain,
			Fix:    madeUp,
			Source: always, Needs: s.needs(late.need), Play: s.play(late.lost),
		},
		{
			ID: "F16", Name: "503 from between", Severity: probe.Critical,
			Checks: "A request that was carried out, and answered 503 by a gateway on the way back, is not carried " +
				"out again.",
			Why:    runsAgain,
			Fix:    "Take a 503 for \"nothing happened\" only if it says so, such as by Retry-After.",
			Source: always + "; RFC 9110 §15.6.4", Needs: s.needs(unavailable.need), Play: s.play(unavailable.lost),
		},
		{
			ID: "F17", Name: "not reached", Severity: probe.Major,
			Checks: "A request that did not reach the work is carried out by a retry.",
			Why:    "Every restart of the API behind leaves keys that can never be used.",
			Fix: "Free the key where nothing was sent: no connection, REFUSED_STREAM, a stream above the last one " +
				"of a GOAWAY.",
			Source: "RFC 9113 §8.7; " + always, Needs: s.needs(unreached.need), Play: s.play(unreached.refusedAtFirst),
		},
		{
			ID: "F18", Name: "unknown is said", Severity: probe.Major,
			Checks: "The answer to a request of unknown outcome says so, and nothing that contradicts it.",
			Why: "A program that reads \"refused\" sends the request again under a new key; one that reads \"try " +
				"again\" does so for nothing.",
			Fix: "Word it as a server error of unknown outcome, without the marker of a replay, and say that a " +
				"retry will not help where the profile can.",
			Source: always + "; Stripe (Stripe-Should-Retry)", Needs: s.needs(lostVariant), Play: s.play(unknownIsSaid),
		},
	}
}

// lost sends a variant whose answer does not come through, and retries it. It may have one effect. What the retries
// are told is judged by unknownIsSaid.
func (v layered) lost(t *run) {
	const retries = 3
	r := t.NewFrom(*v.of(&t.recipe.Variants))
	answers := []wire.Answer{firstLost(t, "variants."+v.name, r)}
	for range retries {
		answers = append(answers, settle(t, "retry", r, t.recipe.Limits.Wait))
	}
	if last := answers[retries]; busy(t, last) {
		t.Warnf("after %s the key is still in flight (%d: %d): its outcome is not available", t.recipe.Limits.Wait, last.No,
			last.Status)
	}
	if t.Counts() {
		switch n := t.MustCount(1, t.shown(answers)...); {
		case n == 0:
			t.Skipf("variants.%s had no effect: it must be carried out", v.name)
		case n > 1:
			t.RanAgain("%s of one request, whose first answer was lost (%d: %d): each retry may run it again", probe.Amount(n),
				answers[0].No, answers[0].Status)
		}
		return
	}
	results := slices.DeleteFunc(answers, func(a wire.Answer) bool { return !a.OK() || t.id(a) == "" })
	switch n := t.MustCount(1, t.shown(results)...); {
	case n > 1:
		t.RanAgain("the answers show %d created things of one request: what may have been done was done again", n)
	case len(results) == 0 || !marked(t, results[0]):
		t.Infof("no answer shows whether a retry ran again: add a count to the recipe to know")
	}
}

// firstLost sends a request whose answer is lost behind the layer, and ends the case if it is not.
func firstLost(t *run, label string, r wire.Request) wire.Answer {
	a := t.Send(label, r)
	if a.OK() && a.Err == nil {
		t.Skipf("%s got %d: its answer must not come through", label, a.Status)
	}
	return a
}

// refusedAtFirst sends a variant that is refused the first time without anything being done, and retries it until it is
// carried out.
func (v layered) refusedAtFirst(t *run) {
	r := t.NewFrom(*v.of(&t.recipe.Variants))
	first := t.Send("variants."+v.name, r)
	if first.OK() {
		t.Skipf("variants.%s got %d: it must be refused the first time", v.name, first.Status)
	}
	a := retryWhile(t, "retry", r, t.recipe.Limits.Wait, func(_ *run, a wire.Answer) bool { return !a.OK() })
	if !a.OK() {
		t.Failf("a request that was refused with %d (%d) before anything was done still gets %d (%d) %s later: the "+
			"refusal was "+
			"kept", first.Status, first.No, a.Status, a.No, a.SentAt.Sub(first.SentAt).Round(100*time.Millisecond))
		return
	}
	t.WantEffects(1, a)
}

// unknownIsSaid checks how an unknown outcome is worded, at first and to a retry.
func unknownIsSaid(t *run) {
	r := t.NewFrom(*lost(&t.recipe.Variants))
	first := firstLost(t, "its answer is lost", r)
	again := settle(t, "retry", r, t.recipe.Limits.Wait)
	wantServersFault(t, first)
	wantServersFault(t, again)
	if again.Status == 0 || again.OK() || taken(t, again) { // there is an answer after all, or none yet
		return
	}
	switch {
	case !saysUnknown(again):
		t.Warnf("the retry (%d) got %d, which does not say that the outcome is unknown: %s", again.No, again.Status,
			body(again))
	case marked(t, again) && !first.Same(again):
		t.Failf("the retry (%d) got %d with the marker of a replay, and nothing is replayed: the first answer (%d) "+
			"was %d", again.No,
			again.Status, first.No, first.Status)
	}
	signal := t.rules.NoRetry
	if got := again.Header.Get(signal.Name); signal.Name != "" && again.ServerError() && got != signal.Value {
		t.Warnf("the answer (%d) will not change, and does not say %s: %s: clients retry it until they give up", again.No,
			signal.Name, signal.Value)
	}
}

// wantServersFault notes a FAIL if an answer to a request that may have been carried out reads as if nothing had
// happened.
func wantServersFault(t *run, a wire.Answer) {
	text := string(a.Plain())
	status, _, _ := strings.Cut(a.Header.Get("Idempotency-Status"), ";")
	switch {
	case a.Status < 400 || taken(t, a):
	case !a.ServerError():
		t.Failf("the answer to a request of unknown outcome (%d) is %d, as if it were the caller's mistake: %s", a.No,
			a.Status,
			body(a))
	case t.rules.CallersFault != "" && strings.Contains(text, t.rules.CallersFault):
		t.Failf("the answer to a request of unknown outcome (%d) is worded as the caller's mistake, %s: %s", a.No,
			t.rules.CallersFault, body(a))
	case status != "" && status != unknown && strings.Contains(strings.ToLower(text), unknown):
		t.Failf("the answer (%d) contradicts itself: Idempotency-Status is %q, and its body says that the outcome is "+
			"unknown", a.No,
			status)
	}
}
