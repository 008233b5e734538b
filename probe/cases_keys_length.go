package probe

import (
	"net/http"
	"strings"
)

func longestKey(t *Trial) {
	n := t.Rules.MaxKey
	r := t.Keyed(t.Fresh(), t.keyOf(n))
	first := t.Send(itoa(n)+" characters", r)
	switch {
	case !t.wantAnswer("a key of "+itoa(n)+" characters", first):
		return
	case !first.OK():
		t.Failf("a key of %d characters (%d) was refused with %d: %s", n, first.No, first.Status, trimmed(first.Body, 200))
		return
	}
	again := t.Send("again", r)
	if t.wantReplay(first, again) && t.WantEffects(1, first, again) {
		t.Observe(func(o *Observed) { o.MaxKey = max(o.MaxKey, n) })
	}
}

func tooLong(t *Trial) {
	n, r := t.Rules.MaxKey, t.stamped(t.Fresh())
	stem := t.keyOf(n)
	one, worked := t.long(r, stem+"x")
	switch {
	case !worked:
	case t.Rules.TooLong:
		t.Failf("a key of %d characters (%d) works; profile %s refuses more than %d", n+1, one.No, t.Rules.Name, n)
	case t.apart(r, stem+"x", stem+"y", one):
		t.Observe(func(o *Observed) { o.MaxKey = max(o.MaxKey, n+1) })
	}
}

// cut is where most schemas cut what is too long for them.
const cut = 255

func truncation(t *Trial) {
	r, stem, tail := t.stamped(t.Fresh()), t.keyOf(cut), strings.Repeat("k", 300-cut-1)
	if one, worked := t.long(r, stem+"x"+tail); worked {
		t.apart(r, stem+"x"+tail, stem+"y"+tail, one)
	}
}

// long sends a request with a key that may be refused for its length.
func (t *Trial) long(r Request, key string) (a Answer, worked bool) {
	what := itoa(len(key)) + " characters"
	a = t.Send(what, t.Keyed(r, key))
	if a.OK() {
		return a, true
	}
	if a.Status != http.StatusRequestHeaderFieldsTooLarge {
		t.wantKeyRefused("a key of "+what, a)
	}
	return a, false
}

// apart notes a FAIL unless two keys of the same length, the first of which has been taken, are two.
func (t *Trial) apart(r Request, one, two string, first Answer) bool {
	again := t.Send("again", t.Keyed(r, one))
	t.wantReplay(first, again)
	other := t.Send("the other key", t.Keyed(r, two))
	switch {
	case !t.wantAnswer("the other key", other):
		return false
	case t.shows(first, other):
		t.Failf("the other key (%d), which differs in one character, got the first one's answer: keys are cut", other.No)
	case !other.OK():
		t.Failf("the other key (%d), of the same length, was refused with %d: it is taken for the first: %s", other.No, other.Status,
			trimmed(other.Body, 200))
	}
	return t.WantEffects(2, first, again, other) && t.Clean()
}
