package fingerprint

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/internal/jsonpointer"
)

// validatePointer returns an error if pointer is not a JSON pointer as RFC 6901 has it: "", or parts that each follow a
// slash, with "~1" for a slash and "~0" for a tilde inside a part.
func validatePointer(pointer string) error {
	if pointer != "" && pointer[0] != '/' {
		return invalidPointer(pointer, "it must be empty or begin with a slash")
	}
	if !utf8.ValidString(pointer) {
		return invalidPointer(pointer, "it is not UTF-8")
	}
	for rest := pointer; ; {
		_, after, found := strings.Cut(rest, "~")
		if !found {
			return nil
		}
		if after == "" || after[0] != '0' && after[0] != '1' {
			return invalidPointer(pointer, "after a tilde comes 0 or 1")
		}
		rest = after
	}
}

// at returns the value that a valid pointer leads to.
func (d *jsonDoc) at(pointer string) (i uint32, ok bool) {
	for pointer != "" {
		var part string
		part, pointer = cutPointer(pointer)
		if i = d.child(i, part); i == 0 {
			return 0, false
		}
	}
	return i, true
}

// cutPointer returns the pointer's first part, unescaped, and the pointer that is left.
func cutPointer(pointer string) (part, rest string) {
	part, rest = pointer[1:], ""
	if i := strings.IndexByte(part, '/'); i >= 0 {
		part, rest = part[:i], part[i:]
	}
	return jsonpointer.Unescape(part), rest
}

// child returns the member of that name, or the element of that index; 0 if there is none.
func (d *jsonDoc) child(i uint32, part string) uint32 {
	switch d.kind(i) {
	case '{':
		for member := d.first(i); member != 0; member = d.next(member) {
			if string(d.name(member)) == part {
				return member
			}
		}
	case '[':
		return d.element(i, part)
	}
	return 0
}

// element returns the array element of that index: decimal digits without leading zeros.
func (d *jsonDoc) element(i uint32, index string) uint32 {
	if !isIndex(index) {
		return 0
	}
	n, err := strconv.Atoi(index)
	if err != nil {
		return 0
	}
	element := d.first(i)
	for ; element != 0 && n > 0; n-- {
		element = d.next(element)
	}
	return element
}

// isIndex reports whether a part of a pointer can be the index of an array element.
func isIndex(part string) bool {
	return part != "" && strings.Trim(part, "0123456789") == "" && (part[0] != '0' || part == "0")
}
