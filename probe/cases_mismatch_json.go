package probe

import (
	"bytes"
	"encoding/json"
	"slices"
)

func otherOrder(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	t.sameMeaning("the same members in another order", r, r.WithBody(reversed(r.Body)))
}

func otherSpace(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	t.sameMeaning("the same with other white space", r, r.WithBody(spaced(r.Body)))
}

// sameMeaning records what becomes of another text that means the same.
func (t *Trial) sameMeaning(what string, r, other Request) {
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	a, replayed := t.sameAgain(what, first, other)
	switch {
	case !t.Clean():
	case !t.Rules.Compares:
		t.Infof("requests are not compared: %s (%d) got %d", what, a.No, a.Status)
	case replayed:
		t.Infof("%s (%d) is a retry: bodies are compared by what they mean", what, a.No)
		t.Observe(func(o *Observed) { o.Canonical = seen(true) })
	default:
		t.Infof("%s (%d) is refused with %d: bodies are compared as they are", what, a.No, a.Status)
		t.Observe(func(o *Observed) { o.Canonical = seen(false) })
	}
	t.WantEffects(1, first, a)
}

func precision(t *Trial) {
	t.wantDifferent("9007199254740993 and 9007199254740992", `"retrysafe_probe":9007199254740993`, `"retrysafe_probe":9007199254740992`)
}

func duplicateMember(t *Trial) {
	t.wantDifferent("a member alone and behind another of its name", `"retrysafe_probe":2`, `"retrysafe_probe":1,"retrysafe_probe":2`)
}

// wantDifferent adds members to the body, and notes a FAIL if others in their place make the same request. A third request that nobody
// can take for the first shows whether the API looks at such members at all.
func (t *Trial) wantDifferent(what, one, two string) {
	plain := t.Keyed(t.Fresh(), t.NewKey())
	first := t.Send("first, with a member more", plain.WithBody(withText(plain.Body, one)))
	if !first.OK() {
		t.NAf("the API takes no member that it does not know (%d): %d %s", first.No, first.Status, trimmed(first.Body, 200))
		return
	}
	a, replayed := t.sameAgain("with another value", first, plain.WithBody(withText(plain.Body, two)))
	t.WantEffects(1, first, a)
	if !replayed {
		return
	}
	b, ignored := t.sameAgain("with a value that is quite another", first, plain.WithBody(withText(plain.Body, `"retrysafe_probe":"other"`)))
	if ignored {
		t.Infof("the API does not compare members that it does not know (%d, %d): nothing can be said", a.No, b.No)
		return
	}
	t.Failf("%s are taken for the same (%d), though another value is refused (%d)", what, a.No, b.No)
}

// withText is a JSON object with the text of members more, at its beginning.
func withText(object []byte, members string) []byte {
	rest := bytes.TrimPrefix(bytes.TrimSpace(object), []byte("{"))
	if !bytes.HasPrefix(bytes.TrimSpace(rest), []byte("}")) {
		members += ","
	}
	return append([]byte("{"+members), rest...)
}

// member is one of a JSON object, with the value as it is written.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf are the members of a JSON object in their order; none if it is something else.
func membersOf(text []byte) (all []member) {
	d := json.NewDecoder(bytes.NewReader(text))
	if opening, err := d.Token(); err != nil || opening != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil
		}
		m := member{}
		m.name, _ = name.(string)
		if d.Decode(&m.value) != nil {
			return nil
		}
		all = append(all, m)
	}
	return all
}

// members are those of the template's body.
func (t Template) members() []member {
	return membersOf([]byte(Intent{uuid: "u", seq: 1, amount: 1, at: "t"}.fill(t.Body)))
}

// reversed is a JSON object with its members in the opposite order.
func reversed(object []byte) []byte {
	all := membersOf(object)
	slices.Reverse(all)
	out := []byte("{")
	for i, m := range all {
		if i > 0 {
			out = append(out, ',')
		}
		name, _ := json.Marshal(m.name) // of what was a string
		out = append(append(append(out, name...), ':'), m.value...)
	}
	return append(out, '}')
}
