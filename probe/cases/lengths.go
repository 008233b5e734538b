package cases

import (
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// longestKey plays K07.
func longestKey(t *run) {
	n := t.rules.MaxKey
	r := t.Keyed(t.Fresh(), keyOf(t, n))
	first := t.Send(itoa(n)+" characters", r)
	if !wantAnswer(t, "a key of "+itoa(n)+" characters", first) {
		return
	}
	if !first.OK() {
		t.Failf("a key of %d characters (%d) was refused with %d: %s", n, first.No, first.Status, body(first))
		return
	}
	again := t.Send("again", r)
	if wantReplay(t, first, again) && t.WantEffects(1, first, again) {
		t.Observe(func(o *probe.Observed) { o.MaxKey = max(o.MaxKey, n) })
	}
}

// tooLong plays K08. Where the profile allows longer keys, a second key that differs only in its last character shows
// whether keys are cut.
func tooLong(t *run) {
	n, alike := t.rules.MaxKey, t.alike()
	r := alike()
	stem := keyOf(t, n)
	one, worked := sendLong(t, r, stem+"x")
	switch {
	case !worked:
	case t.rules.TooLong:
		t.Failf("a key of %d characters (%d) works; profile %s refuses keys of more than %d", n+1, one.No, t.rules.Name, n)
	case wantApart(t, r, alike(), stem+"x", stem+"y", one):
		t.Observe(func(o *probe.Observed) { o.MaxKey = max(o.MaxKey, n+1) })
	}
}

// truncation plays K09. 255 is the width of the column in most schemas.
func truncation(t *run) {
	const cut = 255 // where most schemas cut what is too long for them
	alike, stem, tail := t.alike(), keyOf(t, cut), strings.Repeat("k", 300-cut-1)
	r := alike()
	if one, worked := sendLong(t, r, stem+"x"+tail); worked {
		wantApart(t, r, alike(), stem+"x"+tail, stem+"y"+tail, one)
	}
}

// keyOf returns a new key of that length.
func keyOf(t *run, length int) string {
	key := newKey(t)
	if length == len(key) {
		return key
	}
	key = letters()
	return (key + strings.Repeat("k", max(0, length-len(key))))[:length]
}

// sendLong sends a request with a key that may be refused for its length.
func sendLong(t *run, r wire.Request, key string) (a wire.Answer, worked bool) {
	what := itoa(len(key)) + " characters"
	a = t.Send(what, t.Keyed(r, key))
	tooLarge := http.StatusRequestHeaderFieldsTooLarge
	if t.recipe.KeyQuery != "" {
		tooLarge = http.StatusRequestURITooLong
	}
	if !a.OK() && a.Status != tooLarge {
		wantKeyRefused(t, "a key of "+what, a)
	}
	return a, a.OK()
}

// wantApart notes a FAIL unless two keys of the same length, the first of which has been used for r, are two. alike is
// a request with the same values.
func wantApart(t *run, r, alike wire.Request, one, two string, first wire.Answer) bool {
	again := t.Send("again", t.Keyed(r, one))
	wantReplay(t, first, again)
	other := t.Send("the other key", t.Keyed(alike, two))
	switch {
	case !wantAnswer(t, "the other key", other):
		return false
	case shows(t, first, other):
		t.Failf("the other key (%d), which differs in one character, got the first answer: the API cuts keys", other.No)
	case !other.OK():
		t.Failf("the other key (%d), of the same length, was refused with %d, because it counts as the first "+
			"key: %s", other.No,
			other.Status, body(other))
	}
	return t.WantEffects(2, first, again, other) && t.Clean()
}
