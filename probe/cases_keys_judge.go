package probe

import (
	"strings"
)

// wantAnswer notes a FAIL if there is no answer, or one that says that the server broke.
func (t *Trial) wantAnswer(what string, a Answer) bool {
	switch {
	case a.Status == 0:
		t.Failf("%s (%d) got no answer: %v", what, a.No, a.Err)
	case a.ServerError():
		t.Failf("%s (%d) broke the server: %d %s", what, a.No, a.Status, trimmed(a.Body, 200))
	default:
		return true
	}
	return false
}

// wantKeyRefused notes a FAIL unless the key was refused, as the profile has it.
func (t *Trial) wantKeyRefused(what string, a Answer) bool {
	switch {
	case !t.wantAnswer(what, a):
	case a.Status < 400:
		t.Failf("%s (%d) got %d; profile %s refuses it with %s", what, a.No, a.Status, t.Rules.Name, statuses(t.Rules.Malformed))
	case len(t.Rules.Malformed) > 0 && !oneOf(a.Status, t.Rules.Malformed):
		t.Failf("%s (%d) was refused with %d; profile %s says %s", what, a.No, a.Status, t.Rules.Name, statuses(t.Rules.Malformed))
	default:
		t.Observe(func(o *Observed) { o.Malformed = a.Status })
		return true
	}
	return false
}

// isReplay reports whether an answer is that to a retry of the first request.
func (t *Trial) isReplay(first, a Answer) bool {
	if !t.Rules.Replays {
		return oneOf(a.Status, t.Rules.Mismatch)
	}
	return t.shows(first, a)
}

// shows reports whether an answer is a success that shows what another one does.
func (t *Trial) shows(first, a Answer) bool {
	id := t.Recipe.Identity.of(first)
	return a.OK() && (id != "" && id == t.Recipe.Identity.of(a) || len(a.Body) > 0 && first.Same(a))
}

// stamped has the time of the first attempt, if the profile wants it: all requests made of it have the same.
func (t *Trial) stamped(r Request) Request {
	if t.Rules.FirstSent == "" {
		return r
	}
	return r.Set(t.Rules.FirstSent, t.Keyed(r, "x").Get(t.Rules.FirstSent))
}

// headed has a key header with exactly that value.
func (t *Trial) headed(r Request, value string) Request { return r.Set(t.keyHeader(), value) }

// inForm is a key as the header of the profile has it.
func (t *Trial) inForm(key string) string {
	if t.Rules.Quoted {
		return quoted(key)
	}
	return key
}

// inHeader reports whether the target takes its keys in a header.
func (t *Trial) inHeader() bool { return t.Rules.inHeader() || t.Recipe.KeyHeader != "" }

// carrying carries a key whose bytes are not looked at: in the header, or in the body.
func (t *Trial) carrying(r Request, key string) Request {
	if t.inHeader() {
		return t.RawKeyed(r, t.inForm(key))
	}
	return t.Keyed(r, key)
}

// twice sends a request with that value as the key two times, and reports whether it worked as a key.
func (t *Trial) twice(what, value string, how answer) (worked bool) {
	r := t.headed(t.stamped(t.Fresh()), value)
	first := t.Send(what, r)
	switch {
	case how == refused:
		t.refusedTwice(what, r, first)
		return false
	case !t.wantAnswer(what, first):
		return false
	case !first.OK() && how == open:
		t.Infof("%s (%d) is refused with %d", what, first.No, first.Status)
		return false
	case !first.OK():
		t.Failf("%s (%d) was refused with %d: %s", what, first.No, first.Status, trimmed(first.Body, 200))
		return false
	}
	again := t.Send(what+" again", r)
	switch {
	case how == accepted:
		return t.wantReplay(first, again) && t.WantEffects(1, first, again)
	case t.isReplay(first, again):
		t.Infof("%s is taken as a key (%d, %d)", what, first.No, again.No)
		return true
	}
	t.Warnf("%s is accepted (%d) and does not protect: the same request again (%d) got %d and is not the first one's retry",
		what, first.No, again.No, again.Status)
	return false
}

// refusedTwice notes a FAIL unless nothing happens. A request that was carried out is sent again, to see what became of the key.
func (t *Trial) refusedTwice(what string, r Request, first Answer) {
	t.wantKeyRefused(what, first)
	if !first.OK() {
		t.WantEffects(0, first)
		return
	}
	again := t.Send(what+" again", r)
	if again.OK() && !t.shows(first, again) {
		t.Failf("DANGER: it was carried out again (%d). The API ignores a key that it cannot read, which RFC 9651 §4.2 allows, "+
			"and which leaves a client unprotected that sends one", again.No)
	}
	t.WantEffects(0, first, again)
}

// letters are those of a random key without dashes: 32 of them.
func (t *Trial) letters() string { return strings.ReplaceAll(t.NewKey(), "-", "") }

// keyOf is a new key of that length.
func (t *Trial) keyOf(length int) string {
	key := t.letters()
	if length == len("8e03978e-40d5-43e8-bc93-6894a57f9324") {
		return t.NewKey()
	}
	return (key + strings.Repeat("k", max(0, length-len(key))))[:length]
}
