package cases

import (
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/profile"
)

// quotedKey plays K01.
func quotedKey(t *run) {
	worked := sendTwice(t, "a quoted key", quoted(newKey(t)), t.rules.Quotes)
	t.Observe(func(o *probe.Observed) { o.Quoted = seen(worked) })
}

// bareKey plays K02.
func bareKey(t *run) {
	worked := sendTwice(t, "a bare key", newKey(t), t.rules.Bare)
	t.Observe(func(o *probe.Observed) { o.Bare = seen(worked) })
}

// unterminated plays K04.
func unterminated(t *run) {
	sendTwice(t, "a key without a closing quote", `"`+newKey(t), malformed(t))
}

// badEscape plays K05. RFC 9651 §4.2.5 fails the parsing of a string with any escape but those of the quote and the
// backslash.
func badEscape(t *run) {
	sendTwice(t, `a key with the escape \q`, `"a\q`+newKey(t)+`"`, malformed(t))
}

// malformed returns how the profile takes a malformed structured field. Where keys are opaque bytes, no key is
// malformed.
func malformed(t *run) profile.Taking {
	if t.rules.Quotes == profile.Accepted {
		return profile.Refused
	}
	return profile.Open
}

// quotedIsBare plays K03.
func quotedIsBare(t *run) {
	key, r := newKey(t), stamped(t, t.Fresh())
	first := t.Send("quoted", t.RawKeyed(r, quoted(key)))
	if !wantAnswer(t, "a quoted key", first) {
		return
	}
	if !first.OK() {
		verdict := probe.Info
		if t.rules.Quotes == profile.Accepted {
			verdict = probe.Fail
		}
		t.Notef(verdict, "a quoted key (%d) is refused with %d, so there is nothing to compare", first.No, first.Status)
		return
	}
	bare := t.Send("the same key bare", t.RawKeyed(r, key))
	switch {
	case t.rules.Bare == profile.Refused:
		wantKeyRefused(t, "a bare key", bare)
		t.WantEffects(1, first, bare)
	case t.rules.Quotes == profile.Accepted:
		same := wantReplay(t, first, bare) && t.WantEffects(1, first, bare)
		t.Observe(func(o *probe.Observed) { o.SameQuoted = seen(same) })
	case wantAnswer(t, "the same key bare", bare):
		same := isReplay(t, first, bare)
		t.Observe(func(o *probe.Observed) { o.SameQuoted = seen(same) })
		t.Infof("a key is the same with and without quotes: %v (%d got %d)", same, bare.No, bare.Status)
	}
}

// parameters plays K13.
func parameters(t *run) {
	key, r := quoted(newKey(t)), stamped(t, t.Fresh())
	first := t.First("the key alone", t.RawKeyed(r, key))
	with := t.Send("with a parameter", t.RawKeyed(r, key+";v=1"))
	if with.Status >= 400 && !with.ServerError() && t.rules.Replays {
		t.Warnf("a key with a parameter (%d) is refused with %d; RFC 9651 §2 asks servers to ignore unknown "+
			"parameters",
			with.No, with.Status)
	} else {
		wantReplay(t, first, with)
	}
	t.WantEffects(1, first, with)
}

// twoLines plays K12. A structured-field string on two lines is a list after the lines are joined, and fails to parse
// (RFC 9651 §4.2). Profiles with opaque keys do not say, so the case records what they do.
func twoLines(t *run) {
	r := t.RawKeyed(t.Fresh(), t.inForm(newKey(t))).With(t.keyHeader(), t.inForm(newKey(t)))
	first := t.Send("two lines", r)
	switch {
	case t.rules.Quotes == profile.Accepted:
		wantRefusedTwice(t, "a request with two keys", r, first)
	case !wantAnswer(t, "a request with two keys", first):
	case !first.OK():
		t.Infof("a request with two keys (%d) is refused with %d", first.No, first.Status)
		t.WantEffects(0, first)
	default:
		again := t.Send("two lines again", r)
		if wantAnswer(t, "the same request again", again) && t.WantEffects(1, first, again) {
			t.Infof("a request with two keys runs once (%d, %d)", first.No, again.No)
		}
	}
}

// whiteSpace plays K15. White space around a field value is not part of it (RFC 9110 §5.5).
func whiteSpace(t *run) {
	key, r := t.inForm(newKey(t)), stamped(t, t.Fresh())
	first := t.First("the key alone", t.RawKeyed(r, key))
	around := t.Send("white space around", t.RawKeyed(r, " \t"+key+" \t "))
	wantReplay(t, first, around)
	t.WantEffects(1, first, around)
}
