package fingerprint

import (
	"errors"
	"fmt"
)

// Redacted is the text that RedactJSON puts in the place of strings.
const Redacted = "[redacted]"

// RedactJSON returns body without the values at the JSON pointers: a string becomes [Redacted], and any other value
// null, so that a reader who expects a number or an object is not given a string. All other bytes stay as they are. If
// nothing changes, body itself is returned.
//
// A pointer to a member or an element that does not exist changes nothing. If there is another value on its way than
// was expected, which has no members, that value is redacted as a whole: with "/card/number" the text of "card" in
// {"card":"4242"}, and a list in its place.
//
// It returns an error if body is not JSON (see [CanonicalJSON]), if a pointer is not a JSON pointer or is empty, or if
// body as a whole is a value that has no such members. Then it is not known what of body would have to be redacted: do
// not store it.
func RedactJSON(body []byte, pointers []string) ([]byte, error) {
	for _, p := range pointers {
		if err := validatePointer(p); err != nil {
			return nil, err
		}
		if p == "" {
			return nil, errors.New(`fingerprint: redacting "" leaves nothing`)
		}
	}
	d, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	var changes []change
	for _, p := range pointers {
		i, found := d.reach(p)
		switch {
		case !found:
			continue
		case i == 0:
			return nil, fmt.Errorf("fingerprint: JSON: %q leads nowhere, because the text is not an object", p)
		}
		begin, end := d.span(i)
		value := "null"
		if d.kind(i) == '"' {
			value = `"` + Redacted + `"`
		}
		changes = append(changes, change{begin, end, []byte(value)})
	}
	return replaced(body, changes), nil
}

// reach is like at, but where the pointer leads on from a value that has no members, it returns that value. null has
// nothing that could be meant, and a list does not have an element of a higher index.
func (d *jsonDoc) reach(pointer string) (i uint32, found bool) {
	for pointer != "" {
		var part string
		part, pointer = cutPointer(pointer)
		next := d.child(i, part)
		switch kind := d.kind(i); {
		case next != 0:
			i = next
		case kind == '{', kind == 'n', kind == '[' && isIndex(part):
			return 0, false
		default:
			return i, true
		}
	}
	return i, true
}
