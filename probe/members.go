package probe

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// WithMember returns a JSON object with one more member at its beginning. It replaces a first member of the same name
// if that is a string. It returns other texts unchanged.
func WithMember(object []byte, name, value string) []byte {
	rest, ok := strings.CutPrefix(strings.TrimSpace(string(object)), "{")
	if !ok {
		return object
	}
	v, _ := json.Marshal(value)
	return WithMembers([]byte("{"+withoutFirst(rest, name)), strconv.Quote(name)+":"+string(v))
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

// withoutFirst returns the text after the { of a JSON object, without its first member if that has this name and is a
// string.
func withoutFirst(rest, name string) string {
	value, had := strings.CutPrefix(rest, strconv.Quote(name)+":")
	d := json.NewDecoder(strings.NewReader(value))
	if first, err := d.Token(); !had || err != nil {
		return rest
	} else if _, isText := first.(string); !isText {
		return rest
	}
	return strings.TrimPrefix(strings.TrimLeft(value[d.InputOffset():], " \t\r\n"), ",")
}
