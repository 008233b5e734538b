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

// behindLayer returns the need for a variant, together with its name in recipes and its template.
func behindLayer(name, what string, of func(v *variants) *template) layered {
	return layered{variant(name+": a request that "+what, of), name, of}
}

var (
	unanswered = behindLayer("unanswered", "the upstream runs, and whose answer is lost because the upstream's "+
		"connection closes",
		func(v *variants) *template { return v.Unanswered })
	cutOff = behindLayer("cut_off", "the upstream runs, and whose answer the upstream breaks off",
		func(v *variants) *template { return v.CutOff })
	late = behindLayer("late", "the upstream runs, and answers after the layer's timeout",
		func(v *variants) *template { return v.Late })
	unavailable = behindLayer("unavailable", "the upstream runs, and that a gateway answers with 503",
		func(v *variants) *template { return v.Unavailable })
	unreached = behindLayer("unreached", "does not reach the upstream the first time",
		func(v *variants) *template { return v.Unreached })
	busyBehind = behindLayer("busy", "an inner layer refuses as in flight the first time",
		func(v *variants) *template { return v.Busy })

	lostVariant = need{
		"one of variants.unanswered, cut_off and late",
		func(r *recipe) bool { return lost(&r.Variants) != nil },
	}
)

// lost returns a request whose outcome does not become known, or nil if the recipe has none.
func lost(v *variants) *template {
	for _, t := range []*template{v.Unanswered, v.CutOff, v.Late} {
		if t != nil {
			return t
		}
	}
	return nil
}

const (
	madeUp = "When the idempotency layer gets no answer from the upstream and answers 502 or 504 itself, keep the key. " +
		"Keep it even if the profile releases keys after server errors."
	runsAgain = "The operation has run already. Each retry runs it again."
)

// behind returns the cases about an answer that does not reach the layer that knows about keys. The probe cannot cut
// the connection behind that layer, so the recipe names requests for which the API does it.
func behind(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "F13", Name: "upstream answer lost", Severity: probe.Critical,
			Checks: "If the connection to the upstream breaks before its answer, a retry does not run the " +
				"operation again.",
			Why:    runsAgain,
			Fix:    madeUp,
			Source: always, Needs: s.needs(unanswered.need), Play: s.play(unanswered.lost),
		},
		{
			ID: "F14", Name: "upstream answer cut", Severity: probe.Critical,
			Checks: "If the answer of the upstream breaks off, a retry does not run the operation again.",
			Why:    runsAgain,
			Fix:    madeUp,
			Source: always, Needs: s.needs(cutOff.need), Play: s.play(cutOff.lost),
		},
		{
			ID: "F15", Name: "upstream answer late", Severity: probe.Critical,
			Checks: "If the upstream answers after the layer has stopped waiting, a retry does not run the " +
				"operation again.",
			Why:    runsAgain,
			Fix:    madeUp,
			Source: always, Needs: s.needs(late.need), Play: s.play(late.lost),
		},
		{
			ID: "F16", Name: "gateway 503", Severity: probe.Critical,
			Checks: "If a gateway answers 503 although the upstream ran the operation, a retry does not run it " +
				"again.",
			Why:    runsAgain,
			Fix:    "Treat a 503 as proof that nothing happened only if it says so, for example by Retry-After.",
			Source: always + "; RFC 9110 §15.6.4", Needs: s.needs(unavailable.need), Play: s.play(unavailable.lost),
		},
		{
			ID: "F17", Name: "upstream not reached", Severity: probe.Major,
			Checks: "A request that never reached the upstream runs when it is retried.",
			Why:    "Each restart of the upstream leaves keys that clients can never use.",
			Fix: "Release the key if nothing was sent: no connection, REFUSED_STREAM, or a stream above the last " +
				"one of a GOAWAY.",
			Source: "RFC 9113 §8.7; " + always, Needs: s.needs(unreached.need), Play: s.play(unreached.refusedAtFirst),
		},
		{
			ID: "F18", Name: "unknown outcome", Severity: probe.Major,
			Checks: "The answer to a request of unknown outcome says that the outcome is unknown, and does not " +
				"contradict itself.",
			Why: "A client that reads \"refused\" runs the operation again under a new key. One that reads \"try " +
				"again\" retries in vain.",
			Fix: "Answer with a server error that says that the outcome is unknown, without the replay marker. " +
				"If your profile has a header against useless retries, such as Stripe-Should-Retry: false, send " +
				"it.",
			Source: always + "; Stripe (Stripe-Should-Retry)", Needs: s.needs(lostVariant), Play: s.play(unknownIsSaid),
		},
	}
}

// lost sends a variant whose answer does not come through, and retries it. Whatever the retries are told, the operation
// may run only once. The wording of the answers is judged by unknownIsSaid.
func (v layered) lost(t *run) {
	const retries = 3
	r := t.NewFrom(*v.of(&t.recipe.Variants))
	answers := []wire.Answer{firstLost(t, "variants."+v.name, r)}
	for range retries {
		answers = append(answers, settle(t, "retry", r, t.recipe.Limits.Wait))
	}
	if last := answers[retries]; busy(t, last) {
		t.Warnf("after %s the key is still in flight (%d: %d): clients cannot get the outcome", t.recipe.Limits.Wait, last.No,
			last.Status)
	}
	if t.Counts() {
		switch n := t.MustCount(1, t.shown(answers)...); {
		case n == 0:
			t.Skipf("variants.%s had no effect: the recipe needs a request that runs", v.name)
		case n > 1:
			t.RanAgain("%s of one request whose first answer was lost (%d: %d): each retry may run it again", probe.Amount(n),
				answers[0].No, answers[0].Status)
		}
		return
	}
	results := slices.DeleteFunc(answers, func(a wire.Answer) bool { return !a.OK() || t.id(a) == "" })
	switch n := t.MustCount(1, t.shown(results)...); {
	case n > 1:
		t.RanAgain("the answers to one request show %d created things: an operation that may have run ran again", n)
	case len(results) == 0 || !marked(t, results[0]):
		t.Infof("no answer shows whether a retry ran again: add count to the recipe to find out")
	}
}

// firstLost sends a request whose answer is lost behind the layer. It ends the case if the answer arrives: then the
// variant does not do what the case needs.
func firstLost(t *run, label string, r wire.Request) wire.Answer {
	a := t.Send(label, r)
	if a.OK() && a.Err == nil {
		t.Skipf("%s got %d: the recipe needs a request whose answer is lost", label, a.Status)
	}
	return a
}

// refusedAtFirst plays F17 and C10. It sends a variant that is refused the first time although nothing was done, and
// retries it until it succeeds or Limits.Wait has passed. A refusal that was saved never goes away.
func (v layered) refusedAtFirst(t *run) {
	r := t.NewFrom(*v.of(&t.recipe.Variants))
	first := t.Send("variants."+v.name, r)
	if first.OK() {
		t.Skipf("variants.%s got %d: the recipe needs a request that is refused the first time", v.name, first.Status)
	}
	a := retryWhile(t, "retry", r, t.recipe.Limits.Wait, func(_ *run, a wire.Answer) bool { return !a.OK() })
	if !a.OK() {
		t.Failf("a request that was refused with %d (%d) before it ran still gets %d (%d) %s later: the "+
			"refusal was saved", first.Status, first.No, a.Status, a.No, a.SentAt.Sub(first.SentAt).Round(100*time.Millisecond))
		return
	}
	t.WantEffects(1, a)
}

// unknownIsSaid plays F18. It checks how an unknown outcome is worded in the first answer and in that to a retry. A
// retry that gets the result, or is told that the key is in flight, is fine and not judged further.
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
		t.Failf("the retry (%d) got %d with the marker of a replay, but it is not a replay: the first answer "+
			"(%d) was %d", again.No,
			again.Status, first.No, first.Status)
	}
	signal := t.rules.NoRetry
	if got := again.Header.Get(signal.Name); signal.Name != "" && again.ServerError() && got != signal.Value {
		t.Warnf("the answer (%d) will not change, but it has no %s: %s, so clients retry until they give up", again.No,
			signal.Name, signal.Value)
	}
}

// wantServersFault notes a FAIL if an answer to a request that may have run reads as if nothing had happened. A client
// that reads it so sends the request again under a new key.
func wantServersFault(t *run, a wire.Answer) {
	text := string(a.Plain())
	status, _, _ := strings.Cut(a.Header.Get("Idempotency-Status"), ";")
	switch {
	case a.Status < 400 || taken(t, a):
	case !a.ServerError():
		t.Failf("the answer to a request of unknown outcome (%d) is %d, as if it were the client's mistake: %s", a.No,
			a.Status,
			body(a))
	case t.rules.CallersFault != "" && strings.Contains(text, t.rules.CallersFault):
		t.Failf("the answer to a request of unknown outcome (%d) reads as the client's mistake, %s: %s", a.No,
			t.rules.CallersFault, body(a))
	case status != "" && status != unknown && strings.Contains(strings.ToLower(text), unknown):
		t.Failf("the answer (%d) contradicts itself: Idempotency-Status is %q, but its body says that the "+
			"outcome is unknown", a.No,
			status)
	}
}
