package probe

import (
	"slices"
	"time"
)

// What becomes of errors, as the observed profile has it.
const (
	stored   = "stored"
	released = "released"
	unknown  = "unknown"
)

// replayed reports whether an answer says of itself that it is a replay. A marker that first answers have too says nothing.
func (t *Trial) replayed(a Answer) bool { return t.Rules.RefusalValue == "" && t.markerOf(a) != "" }

// refusal sends a variant that is to be refused with a 4xx.
func (t *Trial) refusal(variant string, r Request) (Answer, bool) {
	a := t.Send(variant, r)
	switch {
	case a.Status == 0:
		t.Brokenf("%s (%d) got no answer: %v", variant, a.No, a.Err)
	case a.Status < 400 || a.Status >= 500:
		t.NAf("%s got %d: it must be refused with a 4xx", variant, a.Status)
	default:
		return a, true
	}
	return a, false
}

func businessError(t *Trial) {
	r := t.Keyed(t.From(*t.Recipe.Variants.Failing, t.Intent()), t.NewKey())
	first, ok := t.refusal("variants.failing", r)
	if !ok {
		return
	}
	again := t.settle("retry", r, time.Second)
	fate := unknown
	if t.replayed(again) {
		fate = stored
	}
	switch {
	case again.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
	case again.OK():
		fate = released
		t.Failf("what was refused with %d (%d) was carried out with %d when it was retried (%d)", first.Status, first.No, again.Status, again.No)
	case again.ServerError():
		t.Failf("what was refused with %d (%d) got %d when it was retried (%d)", first.Status, first.No, again.Status, again.No)
	case t.Rules.KeepsErrors && !first.Same(again):
		t.Failf("the retry (%d) got another refusal: %s; profile %s keeps the first one", again.No, difference(first, again), t.Rules.Name)
	case first.Status != again.Status:
		t.Warnf("what was refused with %d (%d) got %d when it was retried (%d)", first.Status, first.No, again.Status, again.No)
	case !t.Rules.KeepsErrors:
		t.Infof("the retry was refused with %d too, %s", again.Status, map[string]string{stored: "and it was a replay", unknown: "and nothing says whether it ran again"}[fate])
	}
	t.Observe(func(o *Observed) { o.ClientErrors = fate })
	if !again.OK() {
		t.counted(0)
	}
}

func corrected(t *Trial) {
	v, key := t.Intent(), t.NewKey()
	bad, good := t.From(*t.Recipe.Variants.Failing, v), t.For(v)
	first, ok := t.refusal("variants.failing", t.Keyed(bad, key))
	if !ok {
		return
	}
	elsewhere := bad.Path != good.Path && !t.Rules.AllRoutes
	a := t.settle("corrected, under the same key", t.Keyed(good, key), time.Second)
	switch {
	case a.Status == 0:
		t.Failf("the corrected request (%d) got no answer: %v", a.No, a.Err)
	case a.ServerError():
		t.Failf("the corrected request (%d) got %d: %s", a.No, a.Status, trimmed(a.Body, 200))
	case a.OK() && elsewhere:
		t.Infof("the corrected request (%d) was carried out; it goes to another path than variants.failing, which may have keys of its own", a.No)
	case a.OK():
		t.Observe(func(o *Observed) { o.ClientErrors = released })
		t.correctedRuns(a)
	case t.Rules.Compares && first.Same(a):
		t.Failf("the corrected request (%d) got the answer to the other one (%d), %d", a.No, first.No, a.Status)
	case oneOf(a.Status, t.Rules.Mismatch):
		t.Observe(func(o *Observed) { o.ClientErrors = stored })
	default:
		t.Infof("the corrected request (%d) got %d: %s", a.No, a.Status, trimmed(a.Body, 200))
	}
	if a.OK() {
		t.WantEffects(1, a)
	} else {
		t.counted(0)
	}
}

// correctedRuns judges that another body was carried out under the key of one that was refused.
func (t *Trial) correctedRuns(a Answer) {
	const text = "the corrected request (%d) was carried out under the key of the refused one; profile %s %s"
	switch {
	case t.Rules.KeepsErrors:
		t.Failf(text, a.No, t.Rules.Name, "keeps refusals, and refuses other bodies with "+statuses(t.Rules.Mismatch))
	case t.Rules.Compares && t.Rules.Problem:
		t.Warnf(text, a.No, t.Rules.Name, "has "+statuses(t.Rules.Mismatch)+" for another body")
	default:
		t.Infof(text, a.No, t.Rules.Name, "lets that be")
	}
}

func invalidThenValid(t *Trial) {
	v, key := t.Intent(), t.NewKey()
	first, ok := t.refusal("variants.invalid", t.Keyed(t.From(*t.Recipe.Variants.Invalid, v), key))
	if !ok {
		return
	}
	a := t.settle("valid, under the same key", t.Keyed(t.For(v), key), time.Second)
	fate := unknown
	switch {
	case a.Status == 0:
		t.Failf("the valid request (%d) got no answer: %v", a.No, a.Err)
	case a.ServerError():
		t.Failf("the valid request (%d) got %d: %s", a.No, a.Status, trimmed(a.Body, 200))
	case a.OK():
		fate = released
		t.Infof("an invalid request leaves its key free: the valid one was carried out")
	case first.Same(a) && t.Rules.Compares:
		t.Failf("the valid request (%d) got the error of the invalid one (%d), %d", a.No, first.No, a.Status)
	case oneOf(a.Status, t.Rules.Mismatch):
		fate = stored
		t.Infof("an invalid request takes its key: the valid one was refused with %d", a.Status)
	default:
		t.Infof("after an invalid request with its key the valid one got %d: %s", a.Status, trimmed(a.Body, 200))
	}
	t.Observe(func(o *Observed) { o.Invalid = fate })
	if a.OK() {
		t.WantEffects(1, a)
	} else {
		t.counted(0)
	}
}

func refusedCredential(t *Trial) {
	bad := t.Recipe.Revoked
	if len(bad) == 0 {
		bad = spoiled(t.Recipe.A)
	}
	good := t.Keyed(t.Fresh(), t.NewKey())
	r := good
	for _, h := range t.Recipe.A {
		r = r.Without(h.Name)
	}
	first := t.Send("bad credential", r.As(bad))
	if first.Status < 400 || first.Status >= 500 {
		t.NAf("a bad credential got %d: it must be refused", first.Status)
		return
	}
	a := t.settle("good credential", good, time.Second)
	switch {
	case a.Status == first.Status:
		t.Failf("the %d for a bad credential (%d) is also the answer with a good one (%d)", first.Status, first.No, a.No)
	case !a.OK():
		t.Failf("after a bad credential (%d) the same request got %d with a good one (%d): %s %s", first.No, a.Status, a.No, trimmed(a.Body, 200), orNothing(a.Err))
	}
	if a.OK() {
		t.WantEffects(1, a)
	} else {
		t.counted(0)
	}
}

// spoiled is a credential with another last character.
func spoiled(credential []HeaderLine) []HeaderLine {
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

func brokenTwice(t *Trial) {
	template := *t.Recipe.Variants.Broken
	v, key := t.Intent(), t.NewKey()
	r := t.Keyed(t.From(template, v), key)
	first := t.Send("variants.broken", r)
	if !first.ServerError() {
		t.NAf("variants.broken got %d: it must end with a 5xx", first.Status)
		return
	}
	again := t.settle("retry", r, time.Second)
	if !t.atMostOne() {
		return
	}
	switch {
	case again.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
		return
	case t.Rules.KeepsErrors && !first.Same(again):
		t.Failf("the retry (%d) did not get the same error: %s; profile %s keeps it", again.No, difference(first, again), t.Rules.Name)
	}
	fate := t.fateOf(first, again, t.Keyed(t.From(template, v.Changed(template)), key), template.changes())
	t.Observe(func(o *Observed) { o.ServerErrors = fate })
	if !t.Rules.KeepsErrors {
		t.Infof("a 5xx is %s", map[string]string{
			stored: "kept, and replayed", released: "not kept: a retry runs again", unknown: "followed by something else: nothing says whether a retry runs again",
		}[fate])
	}
}

// fateOf finds out what has become of an error. Another request under the same key tells whether the key is still taken.
func (t *Trial) fateOf(first, again Answer, other Request, differs bool) string {
	switch {
	case t.replayed(again) && first.Same(again):
		return stored
	case again.OK():
		return released
	case again.Status != first.Status || !differs || !t.Rules.Compares:
		return unknown
	}
	a := t.settle("another request under the same key", other, time.Second)
	switch {
	case oneOf(a.Status, t.Rules.Mismatch):
		return stored
	case a.Status == first.Status:
		return released
	}
	return unknown
}

// atMostOne notes a FAIL if the case has had more than one effect so far.
func (t *Trial) atMostOne() bool {
	if t.Recipe.Count == nil {
		return true
	}
	n, err := t.Effects(0)
	if err == nil && n == 1 {
		n, err = t.Effects(1)
	}
	switch {
	case err != nil:
		t.Brokenf("the effects could not be counted: %v", err)
	case n > 1:
		t.Failf("%s of one request: what may have been done was done again", effects(n))
	}
	return err == nil && n <= 1
}
