package cases

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// stamped returns the request with the time of the first attempt, if the profile has such a header. All requests made
// from it have the same time, as retries must.
func stamped(t *run, r wire.Request) wire.Request {
	if t.rules.FirstSent == "" || r.Get(t.rules.FirstSent) != "" {
		return r
	}
	return r.Set(t.rules.FirstSent, time.Now().UTC().Format(http.TimeFormat))
}

// requireNoBodyKeys ends a case that has no body where keys are in the body.
func requireNoBodyKeys(t *run) {
	if t.keyInBody() {
		t.Skipf("%s", whoKeysBody(t))
	}
}

// whoKeysBody says that keys are in the body, and who says so.
func whoKeysBody(t *run) string {
	if t.recipe.KeyBody != "" {
		return "the recipe has keys " + t.keyPlace()
	}
	return "profile " + t.rules.Name + " sends the key in the body"
}

// anonymous returns the request without caller A's credential.
func anonymous(t *run, r wire.Request) wire.Request {
	for _, h := range t.recipe.A {
		r = r.Without(h.Name)
	}
	return r
}

// pair returns a request, and one that differs from it in one value, both with the same key. form changes both bodies.
func pair(t *run, form func(body []byte) []byte) (first, other wire.Request) {
	v, key := t.intents.Next(), newKey(t)
	first = stamped(t, t.From(t.recipe.Request, v)) // both use the same set-up, so that the paths are the same
	other = t.From(t.recipe.Request, v.Changed(t.recipe.Request))
	if t.rules.FirstSent != "" {
		other = other.Set(t.rules.FirstSent, first.Get(t.rules.FirstSent))
	}
	return t.Keyed(first.WithBody(form(first.Body)), key), t.Keyed(other.WithBody(form(other.Body)), key)
}

// unchanged returns the body as it is, for pair.
func unchanged(body []byte) []byte { return body }

// padded returns a JSON text with 64 KiB of white space after its first character, so that the content comes late.
func padded(text []byte) []byte {
	out := bytes.TrimSpace(text)
	return slices.Concat(out[:1], bytes.Repeat([]byte(" "), 64<<10), out[1:])
}

// spaced returns a JSON text with other white space.
func spaced(text []byte) []byte {
	out := bytes.TrimSpace(text)
	return slices.Concat(out[:1], []byte("\n\t "), out[1:])
}

// quoted returns a text as a structured-field string (RFC 9651 §3.3.3).
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// member is a member of a JSON object, with the value as it is written.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of a JSON object in their order, or none if the text is something else.
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

// reversed returns a JSON object with its members in the opposite order.
func reversed(object []byte) []byte {
	var texts []string
	for _, m := range slices.Backward(membersOf(object)) {
		name, _ := json.Marshal(m.name) // of what was a string
		texts = append(texts, string(name)+":"+string(m.value))
	}
	return []byte("{" + strings.Join(texts, ",") + "}")
}
