package probe

import "strings"

func emptyKey(t *Trial) {
	if !t.inHeader() {
		t.emptyTwice("an empty key", Fail, t.Keyed(t.Fresh(), ""), t.Keyed(t.Fresh(), ""))
		return
	}
	t.emptyTwice("an empty header", Fail, t.RawKeyed(t.Fresh(), ""), t.RawKeyed(t.Fresh(), ""))
	v := Fail
	if t.Rules.Quotes != accepted {
		v = Warn // where quotes are a part of the key this is one of two characters
	}
	t.emptyTwice("an empty string in quotes", v, t.RawKeyed(t.Fresh(), `""`), t.RawKeyed(t.Fresh(), `""`))
	if t.Rules.Quotes == accepted {
		t.WantEffects(0)
	}
}

// emptyTwice sends two requests for different intents with the same empty key, and notes v if they share a result.
func (t *Trial) emptyTwice(what string, v Verdict, one, two Request) {
	a, b := t.Send(what, one), t.Send(what+", another request", two)
	if !t.wantAnswer(what, a) || !t.wantAnswer(what, b) {
		return
	}
	switch {
	case a.OK() && t.isReplay(a, b):
		t.note(v, "two different requests with %s (%d, %d) share one result: the second never happened", what, a.No, b.No)
	case t.Rules.Quotes == accepted:
		t.wantKeyRefused(what, a)
		t.wantKeyRefused(what, b)
	default:
		t.Infof("%s is answered with %d (%d), another request with %d (%d)", what, a.Status, a.No, b.Status, b.No)
	}
}

// spelled are texts that a collation or a conversion takes for the same; key is what makes them new.
func spelled(key string, inHeader bool) []string {
	all := []string{"k\u00e9" + key, "k\u00e8" + key, "ke\u0301" + key, "ke" + key}
	if inHeader {
		all = append(all, "k\xe9"+key) // Latin-1, as many header parsers have it; JSON cannot carry it
	}
	return all
}

func nonASCII(t *Trial) {
	r, key := t.stamped(t.Fresh()), t.letters()[:24]
	t.allApart(r, spelled(key, t.inHeader()))
}

// oddOnes are what is put behind a key to reach another one: key itself, or key and an x.
func oddOnes(key string, inHeader bool) []string {
	all := []string{
		key + "%78", key + "%0d%0ax", key + "\tx", key + "*", key + "?", key + "[x]", key + "%", key + "{}", key + "/.", key + "/../" + key,
		key + "' OR '1'='1", key + "'; --", key + "\\x", key + `"x`, key + "${x}", key + "#x",
	}
	if inHeader {
		all = append(all, key+"\x01x", key+"\x00x", key+"\x7fx")
	}
	return all
}

func oddKeys(t *Trial) {
	r, key := t.stamped(t.Fresh()), t.letters()[:16]
	t.allApart(r, append([]string{key, key + "x"}, oddOnes(key, t.inHeader())...))
}

// taken is a key that was taken, and the answer to its first request.
type taken struct {
	key   string
	first Answer
}

// allApart notes a FAIL unless each key is refused, or is a key of its own. The bodies are the same, so that a key that stands for
// another one is seen as its replay.
func (t *Trial) allApart(r Request, keys []string) {
	var known []taken
	for _, key := range keys {
		a := t.Send(shownKey(key), t.carrying(r, key))
		if !t.wantAnswer("the key "+shownKey(key), a) {
			continue
		}
		for _, other := range known {
			if t.shows(other.first, a) {
				t.Failf("the key %s (%d) got what belongs to %s (%d)", shownKey(key), a.No, shownKey(other.key), other.first.No)
				return
			}
		}
		switch {
		case len(known) > 0 && t.saysUsed(a):
			t.Failf("the key %s (%d) is taken for one of those before: %d %s", shownKey(key), a.No, a.Status, trimmed(a.Body, 200))
			return
		case a.OK():
			known = append(known, taken{key, a})
		default:
			t.wantKeyRefused("the key "+shownKey(key), a)
		}
	}
	var answers []Answer
	for _, k := range known {
		again := t.Send(shownKey(k.key)+" again", t.carrying(r, k.key))
		if !t.wantReplay(k.first, again) {
			t.Failf("the key %s (%d) is accepted and does not protect", shownKey(k.key), k.first.No)
		}
		answers = append(answers, k.first, again)
	}
	t.WantEffects(len(known), answers...)
}

// saysUsed reports whether a refusal says that the key was used before: for another body, if the key is a part of that.
func (t *Trial) saysUsed(a Answer) bool {
	text := t.Rules.MismatchText
	return oneOf(a.Status, t.Rules.Mismatch) && (!t.Rules.Replays || text != "" && strings.Contains(string(a.plain()), text))
}

// shownKey is a key for people.
func shownKey(key string) string {
	var b strings.Builder
	for _, c := range []byte(key) {
		if c >= ' ' && c <= '~' {
			b.WriteByte(c)
			continue
		}
		b.WriteString(`\x` + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]))
	}
	return b.String()
}

func caseOfKeys(t *Trial) {
	r, upper := t.stamped(t.Fresh()), "AbC-"+t.letters()[:24]
	if t.Rules.UUIDs {
		upper = "ABCDEF" + strings.ToUpper(t.NewKey()[6:])
	}
	lower := strings.ToLower(upper)
	first := t.Send("upper case", t.Keyed(r, upper))
	switch {
	case !t.wantAnswer("a key in upper case", first):
		return
	case !first.OK():
		t.NAf("a key such as %s (%d) is refused with %d", upper, first.No, first.Status)
		return
	}
	second := t.Send("lower case", t.Keyed(r, lower))
	switch {
	case t.Rules.FoldsCase:
		t.wantReplay(first, second)
		t.WantEffects(1, first, second)
	case t.isReplay(first, second):
		t.Failf("%s (%d) and %s (%d) are taken for the same key", upper, first.No, lower, second.No)
	case t.wantAnswer("the key in lower case", second):
		t.WantEffects(2, first, second)
	}
}

func formOfKeys(t *Trial) {
	uuid := t.Keyed(t.Fresh(), t.NewKey())
	first := t.Send("a UUID", uuid)
	if !t.wantAnswer("a UUID", first) {
		return
	}
	if !first.OK() {
		t.Failf("a key that is a UUID of 36 characters (%d) was refused with %d: %s", first.No, first.Status, trimmed(first.Body, 200))
	} else {
		t.wantReplay(first, t.Send("the UUID again", uuid))
	}
	other := t.Keyed(t.Fresh(), "order_"+t.letters()[:24])
	a := t.Send("no UUID", other)
	switch {
	case !t.wantAnswer("a key that is no UUID", a):
	case !a.OK():
		t.Infof("a key that is no UUID (%d) is refused with %d", a.No, a.Status)
	case t.isReplay(a, t.Send("no UUID again", other)):
		t.Infof("a key that is no UUID (%d) works", a.No)
	default:
		t.Failf("a key that is no UUID (%d) is accepted and does not protect", a.No)
	}
	t.Observe(func(o *Observed) { o.UUIDOnly = seen(!a.OK()) })
}
