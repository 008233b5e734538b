package probe

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// WithMember returns a JSON object with one more member at its beginning. It replaces a first member of the same name
// if that is a string. It returns other texts unchanged.
func WithMember(object []byte, name, value string) []byte {
	rest, ok := strings.CutPrefix(strings.TrimSpace(string(object)), "{")
	if !ok {
		return object
	}
	return WithMembers([]byte("{"+withoutFirst(rest, name)), inJSON(name)+":"+inJSON(value))
}

// WithMembers returns a JSON object with more members at its beginning. The members are given as JSON text, so that a
// case can send duplicate members and odd numbers.
func WithMembers(object []byte, members string) []byte {
	rest := bytes.TrimPrefix(bytes.TrimSpace(object), []byte("{"))
	if !bytes.HasPrefix(bytes.TrimSpace(rest), []byte("}")) {
		members += ","
	}
	return append([]byte("{"+members), rest...)
}

// WithPointer returns a JSON object with a text at a JSON pointer, in the objects that the pointer names. It adds those
// that are missing, and returns the object unchanged if something else than an object stands on the way.
func WithPointer(object []byte, pointer, value string) []byte {
	name, rest, deeper := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	if !deeper {
		return WithMember(object, name, value)
	}
	if start, end := memberIn(object, name); end > 0 {
		return slices.Concat(object[:start], WithPointer(object[start:end], "/"+rest, value), object[end:])
	}
	if !bytes.HasPrefix(bytes.TrimSpace(object), []byte("{")) {
		return object
	}
	return WithMembers(object, inJSON(name)+":"+string(WithPointer([]byte("{}"), "/"+rest, value)))
}

// memberIn returns where the value of a member stands in a JSON object; 0, 0 if it has no such member.
func memberIn(object []byte, name string) (start, end int) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return 0, 0
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return 0, 0
		}
		if key == name {
			return int(d.InputOffset()) - len(value), int(d.InputOffset())
		}
	}
	return 0, 0
}

// WithParameter returns a form or a query with a parameter at its end, in the place of others of that name.
func WithParameter(form, name, value string) string {
	var kept []string
	for part := range strings.SplitSeq(form, "&") {
		before, _, _ := strings.Cut(part, "=")
		if known, err := url.QueryUnescape(before); part != "" && (err != nil || known != name) {
			kept = append(kept, part)
		}
	}
	return strings.Join(append(kept, url.QueryEscape(name)+"="+url.QueryEscape(value)), "&")
}

// withoutFirst returns the text after the { of a JSON object, without its first member if that has this name and is a
// string.
func withoutFirst(rest, name string) string {
	value, had := strings.CutPrefix(rest, inJSON(name)+":")
	d := json.NewDecoder(strings.NewReader(value))
	if first, err := d.Token(); !had || err != nil {
		return rest
	} else if _, isText := first.(string); !isText {
		return rest
	}
	return strings.TrimPrefix(strings.TrimLeft(value[d.InputOffset():], " \t\r\n"), ",")
}

// inJSON returns a text as a JSON string.
func inJSON(text string) string {
	quoted, _ := json.Marshal(text) // of a string cannot fail
	return string(quoted)
}
