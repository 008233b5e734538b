package probe

func quotedKey(t *Trial) {
	worked := t.twice("a quoted key", quoted(t.NewKey()), t.Rules.Quotes)
	t.Observe(func(o *Observed) { o.Quoted = seen(worked) })
}

func bareKey(t *Trial) {
	worked := t.twice("a bare key", t.NewKey(), t.Rules.Bare)
	t.Observe(func(o *Observed) { o.Bare = seen(worked) })
}

func unterminated(t *Trial) {
	t.twice("a key whose quotes do not end", `"`+t.NewKey(), t.malformed())
}

func badEscape(t *Trial) {
	t.twice(`a key with the escape \q`, `"a\q`+t.NewKey()+`"`, t.malformed())
}

// malformed is how a malformed structured field is taken: where keys are opaque it is none.
func (t *Trial) malformed() answer {
	if t.Rules.Quotes == accepted {
		return refused
	}
	return open
}

func quotedIsBare(t *Trial) {
	key, r := t.NewKey(), t.stamped(t.Fresh())
	first := t.Send("quoted", t.headed(r, quoted(key)))
	if !t.wantAnswer("a quoted key", first) {
		return
	}
	if !first.OK() {
		t.note(verdictOf(t.Rules.Quotes), "a quoted key (%d) is refused with %d: there is nothing to compare", first.No, first.Status)
		return
	}
	bare := t.Send("the same key bare", t.headed(r, key))
	switch {
	case t.Rules.Bare == refused:
		t.wantKeyRefused("a bare key", bare)
		t.WantEffects(1, first, bare)
	case t.Rules.Quotes == accepted:
		same := t.wantReplay(first, bare) && t.WantEffects(1, first, bare)
		t.Observe(func(o *Observed) { o.SameQuoted = seen(same) })
	case t.wantAnswer("the same key bare", bare):
		same := t.isReplay(first, bare)
		t.Observe(func(o *Observed) { o.SameQuoted = seen(same) })
		t.Infof("a key is the same with quotes and without: %v (%d got %d)", same, bare.No, bare.Status)
	}
}

// verdictOf is that of something refused.
func verdictOf(how answer) Verdict {
	if how == accepted {
		return Fail
	}
	return Info
}

func parameters(t *Trial) {
	key, r := quoted(t.NewKey()), t.stamped(t.Fresh())
	first, ok := t.Works("the key alone", t.headed(r, key))
	if !ok {
		return
	}
	with := t.Send("with a parameter", t.headed(r, key+";v=1"))
	if !with.OK() && with.Status >= 400 && !with.ServerError() && t.Rules.Replays {
		t.Warnf("a key with a parameter (%d) is refused with %d: RFC 9651 §2 wants unknown parameters to be left alone", with.No, with.Status)
	} else {
		t.wantReplay(first, with)
	}
	t.WantEffects(1, first, with)
}

func twoLines(t *Trial) {
	r := t.headed(t.stamped(t.Fresh()), t.inForm(t.NewKey())).With(t.keyHeader(), t.inForm(t.NewKey()))
	first := t.Send("two lines", r)
	switch {
	case t.Rules.Quotes == accepted:
		t.refusedTwice("a request with two keys", r, first)
	case !t.wantAnswer("a request with two keys", first):
	case !first.OK():
		t.Infof("a request with two keys (%d) is refused with %d", first.No, first.Status)
		t.WantEffects(0, first)
	default:
		again := t.Send("two lines again", r)
		if t.wantAnswer("the same request again", again) && t.WantEffects(1, first, again) {
			t.Infof("a request with two keys is carried out once (%d, %d)", first.No, again.No)
		}
	}
}

func whiteSpace(t *Trial) {
	key, r := t.inForm(t.NewKey()), t.stamped(t.Fresh())
	first, ok := t.Works("the key alone", t.headed(r, key))
	if !ok {
		return
	}
	around := t.Send("white space around", t.headed(r, " \t"+key+" \t "))
	t.wantReplay(first, around)
	t.WantEffects(1, first, around)
}
