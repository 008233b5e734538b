package fingerprint

import "strings"

// CanonicalJSON returns the canonical form of body, which is the same however the same JSON value is written: without
// insignificant white space, members sorted by name (as RFC 8785 sorts them: by UTF-16 code units), strings with as few
// escapes as possible.
//
// Numbers stay as they were written: 1.0 differs from 1, and 9007199254740993 from 9007199254740992. RFC 8785 rewrites
// them as floating-point numbers, which makes different amounts equal: see [Numbers].
//
// It returns an error where two readers could disagree about what body says: it is not exactly one JSON value, or not
// UTF-8; an object has two members with one name; a string holds half a surrogate pair; objects and arrays nest deeper
// than 1000; or it is longer than a gibibyte. Time is proportional to the length of body (except for
// sorting); memory is at most nine times its length.
func CanonicalJSON(body []byte) ([]byte, error) { return Fields{}.Canonical(body) }

// JSONPart returns a part for Algorithm.Sum that stands for a JSON body: its canonical form, or that of the chosen
// fields. A body that has no canonical form is compared byte for byte, and never equals one that has: a request is not
// refused because its body is not JSON. The same holds if f is not valid; see
// Fields.Validate.
func JSONPart(body []byte, f Fields) string {
	part, err := f.appendCanonical([]byte(canonicalPart), body)
	if err != nil {
		return rawPart + string(body)
	}
	return string(part)
}

// A prefix says which of the two a part is. Both belong to one algorithm, because fingerprints of different algorithms
// match.
const (
	canonicalPart = "canonical:"
	rawPart       = "raw:"
)

// appendTo appends the canonical form of value i, without excluded values.
func (d *jsonDoc) appendTo(b []byte, i uint32) []byte {
	switch d.kind(i) {
	case '{':
		return append(d.appendChildren(append(b, '{'), i), '}')
	case '[':
		return append(d.appendChildren(append(b, '['), i), ']')
	case '"':
		return appendQuoted(b, d.text(i))
	case 't', 'f', 'n':
		return append(b, d.text(i)...)
	}
	return d.appendNumber(b, d.text(i))
}

func (d *jsonDoc) appendChildren(b []byte, i uint32) []byte {
	start := len(b)
	for child := d.first(i); child != 0; child = d.next(child) {
		if d.slots[child].next&jsonExcluded != 0 {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		if d.kind(i) == '{' {
			b = append(appendQuoted(b, d.name(child)), ':')
		}
		b = d.appendTo(b, child)
	}
	return b
}

// appendQuoted appends s as RFC 8785 writes it: only quotes, backslashes and control characters are escaped.
func appendQuoted[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = appendEscaped(append(b, s[start:i]...), c)
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}

func appendEscaped(b []byte, c byte) []byte {
	if i := strings.IndexByte("\"\\\b\f\n\r\t", c); i >= 0 {
		return append(b, '\\', `"\bfnrt`[i])
	}
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}

// compareUTF16 orders two UTF-8 texts by their UTF-16 code units. That is the order of their bytes, except that runes
// beyond U+FFFF (leading byte F0 and more) come before U+E000 to U+FFFF (leading byte EE or EF).
func compareUTF16[T string | []byte](a, b T) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		switch {
		case x == y:
			continue
		case x >= 0xF0 && (y == 0xEE || y == 0xEF):
			return -1
		case y >= 0xF0 && (x == 0xEE || x == 0xEF):
			return +1
		}
		return int(x) - int(y)
	}
	return len(a) - len(b)
}
