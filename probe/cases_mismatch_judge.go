package probe

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// pair is a request, and one for the same intent but for a value, both with the same key.
func (t *Trial) pair() (first, other Request) {
	return t.pairOf(func(body []byte) []byte { return body })
}

// pairOf is a pair whose bodies have been given another form.
func (t *Trial) pairOf(form func(body []byte) []byte) (first, other Request) {
	v, key := t.Intent(), t.NewKey()
	r := t.stamped(t.For(v))
	changed := t.For(v.Changed(t.Recipe.Request))
	r, changed = r.WithBody(form(r.Body)), changed.WithBody(form(changed.Body))
	if t.Rules.FirstSent != "" {
		changed = changed.Set(t.Rules.FirstSent, r.Get(t.Rules.FirstSent))
	}
	return t.Keyed(r, key), t.Keyed(changed, key)
}

// wantMismatch notes a FAIL unless another request under the same key is taken as the profile has it.
func (t *Trial) wantMismatch(first, a Answer) bool {
	const what = "the other request"
	switch {
	case !t.wantAnswer(what, a):
		return false
	case !a.OK():
		return t.wantToldWhy(what, a)
	case !t.shows(first, a):
		t.Failf("%s (%d) got %d: it was carried out under the key of the first: %s", what, a.No, a.Status, trimmed(a.Body, 200))
		return false
	}
	switch {
	case !t.Rules.Compares:
		t.Infof("requests are not compared: %s (%d) got the first one's answer", what, a.No)
	case t.Rules.LooseBody:
		t.Warnf("%s (%d) got the first one's answer: profile %s allows it, and the client does not learn of its mistake", what, a.No, t.Rules.Name)
	default:
		t.Failf("%s (%d) got the first one's answer: the client believes that it happened", what, a.No)
		return false
	}
	return true
}

// wantToldWhy notes a FAIL unless a refusal tells the client what it is about, as the profile has it.
func (t *Trial) wantToldWhy(what string, a Answer) bool {
	switch {
	case a.Status < 400:
		t.Failf("%s (%d) got %d, which is neither a success nor a refusal", what, a.No, a.Status)
	case len(t.Rules.Mismatch) > 0 && !oneOf(a.Status, t.Rules.Mismatch):
		t.Failf("%s (%d) was refused with %d; profile %s says %s: clients cannot tell what is wrong", what, a.No, a.Status, t.Rules.Name,
			statuses(t.Rules.Mismatch))
	case !strings.Contains(string(a.plain()), t.Rules.MismatchText):
		t.Failf("%s (%d) was refused without %q in the body: %s", what, a.No, t.Rules.MismatchText, trimmed(a.Body, 200))
	case t.Rules.RefusalValue != "" && !strings.EqualFold(a.Header.Get(t.Rules.Marker), t.Rules.RefusalValue):
		t.Failf("%s (%d) was refused without %s: %s", what, a.No, t.Rules.Marker, t.Rules.RefusalValue)
	default:
		t.Observe(func(o *Observed) { o.Mismatch = a.Status })
		return true
	}
	return false
}

// sameAgain sends a request that means the same as the first, or nearly so, with the first one's key. It notes a FAIL if it was carried
// out again, and reports whether it was taken for the first one's retry.
func (t *Trial) sameAgain(what string, first Answer, r Request) (a Answer, replayed bool) {
	a = t.Send(what, r)
	switch {
	case !t.wantAnswer(what, a):
	case t.shows(first, a):
		return a, true
	case a.OK():
		t.Failf("%s (%d) got %d: it was carried out again: %s", what, a.No, a.Status, trimmed(a.Body, 200))
	case a.Status < 400:
		t.Failf("%s (%d) got %d, which is neither a success nor a refusal", what, a.No, a.Status)
	}
	return a, false
}

// foreign sends a request that is not the first one's retry, with its key, and notes v if it gets the first one's answer. Whether it
// is refused or carried out for itself is left to the case.
func (t *Trial) foreign(what string, v Verdict, first Answer, r Request) (a Answer, ok bool) {
	a = t.Send(what, r)
	if a.Status == http.StatusNotImplemented {
		return a, true // of the method, or of keys here: both are fine
	}
	if !t.wantAnswer(what, a) {
		return a, false
	}
	if t.shows(first, a) {
		t.note(v, "%s (%d) got the answer of the first request (%d)", what, a.No, first.No)
		return a, false
	}
	return a, true
}

// padded is a JSON text whose content comes late.
func padded(text []byte) []byte {
	out := bytes.TrimSpace(text)
	return slices.Concat(out[:1], bytes.Repeat([]byte(" "), 64<<10), out[1:])
}

// spaced is a JSON text with other white space.
func spaced(text []byte) []byte {
	out := bytes.TrimSpace(text)
	return append([]byte(string(out[:1])+"\n\t "), out[1:]...)
}
