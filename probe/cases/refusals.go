package cases

import (
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// firstRefused sends a variant that must be refused with a 4xx, and ends the case if it is not.
func firstRefused(t *run, variant string, r wire.Request) wire.Answer {
	a := t.Send(variant, r)
	switch {
	case a.Status == 0:
		t.Brokenf("%s (%d) got no answer: %v", variant, a.No, a.Err)
	case a.Status < 400 || a.Status >= 500:
		t.Skipf("%s got %d: the recipe needs a request that is refused with a 4xx", variant, a.Status)
	}
	return a
}

// wantEffectIf notes a FAIL unless the case has had one effect if the answer is a success, and none otherwise.
func wantEffectIf(t *run, a wire.Answer) {
	if a.OK() {
		t.WantEffects(1, a)
	} else {
		t.WantCount(0)
	}
}

// businessError plays F01.
func businessError(t *run) {
	r := t.NewFrom(*t.recipe.Variants.Failing)
	first := firstRefused(t, "variants.failing", r)
	again := settle(t, "retry", r, time.Second)
	fate, how := unknown, "and no marker says whether it is a replay"
	if marked(t, again) {
		fate, how = stored, "which was a replay"
	}
	switch {
	case again.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
	case again.OK():
		fate = released
		t.Failf("the request that was refused with %d (%d) succeeded with %d when it was retried (%d)", first.Status, first.No,
			again.Status, again.No)
	case again.ServerError():
		t.Failf("the request that was refused with %d (%d) got %d when it was retried (%d)", first.Status, first.No, again.Status,
			again.No)
	case t.rules.KeepsErrors && !first.Same(again):
		t.Failf("the retry (%d) got another refusal: %s; profile %s replays the first one", again.No, difference(first, again),
			t.rules.Name)
	case first.Status != again.Status:
		t.Warnf("the request that was refused with %d (%d) got %d when it was retried (%d)", first.Status, first.No, again.Status,
			again.No)
	case !t.rules.KeepsErrors:
		t.Infof("the retry was refused with %d too, %s", again.Status, how)
	}
	t.Observe(func(o *probe.Observed) { o.ClientErrors = fate })
	if !again.OK() {
		t.WantCount(0)
	}
}

// corrected plays F02. Where routes may have separate keys, a corrected request at another path is another operation.
func corrected(t *run) {
	v, key := t.intents.Next(), newKey(t)
	bad, good := t.From(*t.recipe.Variants.Failing, v), t.From(t.recipe.Request, v)
	first := firstRefused(t, "variants.failing", t.Keyed(bad, key))
	elsewhere := bad.Path != good.Path && !t.rules.AllRoutes
	a := settle(t, "corrected, under the same key", t.Keyed(good, key), time.Second)
	const ran = "the corrected request (%d) ran under the key of the refused one; profile %s %s"
	switch {
	case !wantAnswer(t, "the corrected request", a):
	case a.OK() && elsewhere:
		t.Infof("the corrected request (%d) ran; its path differs from that of variants.failing, and paths may "+
			"have separate keys", a.No)
	case a.OK():
		t.Observe(func(o *probe.Observed) { o.ClientErrors = released })
		switch mismatch := statuses(t.rules.Mismatch); {
		case t.rules.KeepsErrors:
			t.Failf(ran, a.No, t.rules.Name, "saves refusals, and refuses other bodies with "+mismatch)
		case t.rules.Compares && t.rules.Problem:
			t.Warnf(ran, a.No, t.rules.Name, "answers another body with "+mismatch)
		default:
			t.Infof(ran, a.No, t.rules.Name, "allows that")
		}
	case t.rules.Compares && first.Same(a):
		t.Failf("the corrected request (%d) got the answer to the refused one (%d), %d", a.No, first.No, a.Status)
	case slices.Contains(t.rules.Mismatch, a.Status):
		t.Observe(func(o *probe.Observed) { o.ClientErrors = stored })
	default:
		t.Infof("the corrected request (%d) got %d: %s", a.No, a.Status, body(a))
	}
	wantEffectIf(t, a)
}

// invalidThenValid plays F03. Releasing the key and keeping it are both right, so the case records which of them the
// API does.
func invalidThenValid(t *run) {
	v, key := t.intents.Next(), newKey(t)
	first := firstRefused(t, "variants.invalid", t.Keyed(t.From(*t.recipe.Variants.Invalid, v), key))
	a := settle(t, "valid, under the same key", t.Keyed(t.From(t.recipe.Request, v), key), time.Second)
	fate := unknown
	switch {
	case !wantAnswer(t, "the valid request", a):
	case a.OK():
		fate = released
		t.Infof("an invalid request releases its key: the valid one ran")
	case first.Same(a) && t.rules.Compares:
		t.Failf("the valid request (%d) got the error of the invalid one (%d), %d", a.No, first.No, a.Status)
	case slices.Contains(t.rules.Mismatch, a.Status):
		fate = stored
		t.Infof("an invalid request uses up its key: the valid one was refused with %d", a.Status)
	default:
		t.Infof("the valid request after an invalid one with its key got %d: %s", a.Status, body(a))
	}
	t.Observe(func(o *probe.Observed) { o.Invalid = fate })
	wantEffectIf(t, a)
}

// refusedCredential plays F04. Without a revoked credential in the recipe, it spoils the last character of caller A's.
func refusedCredential(t *run) {
	bad := t.recipe.Revoked
	if len(bad) == 0 {
		bad = spoiled(t.recipe.A)
	}
	good := t.New()
	first := t.Send("bad credential", anonymous(t, good).As(bad))
	if first.Status < 400 || first.Status >= 500 {
		t.Skipf("a bad credential got %d, but the case needs an API that refuses it", first.Status)
	}
	a := settle(t, "good credential", good, time.Second)
	switch {
	case a.Status == first.Status:
		t.Failf("the %d for a bad credential (%d) is also the answer to a good one (%d)", first.Status, first.No, a.No)
	case !a.OK():
		t.Failf("after a bad credential (%d) the same request got %d with a good one (%d): %s", first.No, a.Status,
			a.No, body(a))
	}
	wantEffectIf(t, a)
}

// spoiled returns a credential with another last character.
func spoiled(credential []wire.HeaderLine) []wire.HeaderLine {
	all := slices.Clone(credential)
	for i, h := range all {
		last := "x"
		if len(h.Value) > 0 && h.Value[len(h.Value)-1] == 'x' {
			last = "y"
		}
		all[i].Value = h.Value[:max(0, len(h.Value)-1)] + last
	}
	return all
}

// brokenTwice plays F06. It retries a request that ended with a 5xx, and finds out what has become of its key. If the
// retry gets the same status without a marker, a different request under the same key tells: only a key that is still
// taken answers with a mismatch.
func brokenTwice(t *run) {
	template := *t.recipe.Variants.Broken
	v, key := t.intents.Next(), newKey(t)
	r := t.Keyed(t.From(template, v), key)
	first := t.Send("variants.broken", r)
	if !first.ServerError() {
		t.Skipf("variants.broken got %d: the recipe needs a request that ends with a 5xx", first.Status)
	}
	again := settle(t, "retry", r, time.Second)
	if !wantAtMostOne(t) {
		return
	}
	switch {
	case again.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
		return
	case t.rules.KeepsErrors && !first.Same(again):
		t.Failf("the retry (%d) did not get the same error: %s; profile %s replays it", again.No, difference(first, again),
			t.rules.Name)
	}
	fate := unknown
	switch {
	case marked(t, again) && first.Same(again):
		fate = stored
	case again.OK():
		fate = released
	case again.Status == first.Status && probe.Mentions(template.Body, "") && t.rules.Compares:
		other := t.Keyed(t.From(template, v.Changed(template)), key)
		switch a := settle(t, "another request under the same key", other, time.Second); {
		case slices.Contains(t.rules.Mismatch, a.Status):
			fate = stored
		case a.Status == first.Status:
			fate = released
		}
	}
	t.Observe(func(o *probe.Observed) { o.ServerErrors = fate })
	if !t.rules.KeepsErrors {
		t.Infof("a 5xx is %s", map[string]string{
			stored: "saved and replayed", released: "not saved: a retry runs again",
			unknown: "followed by another answer, which does not say whether a retry runs again",
		}[fate])
	}
}
