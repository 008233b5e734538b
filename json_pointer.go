package retrysafe

import (
	"strconv"
	"strings"
	"unicode/utf8"
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

// atEach returns what the pointers lead to.
func (n *jsonNode) atEach(pointers []string) []*jsonNode {
	var found []*jsonNode
	for _, pointer := range pointers {
		if at := n.at(pointer); at != nil {
			found = append(found, at)
		}
	}
	return found
}

// at returns what a valid pointer leads to from n on; nil: nowhere.
func (n *jsonNode) at(pointer string) *jsonNode {
	for n != nil && pointer != "" {
		var part string
		part, pointer = cutPointer(pointer)
		n = n.child(part)
	}
	return n
}

// cutPointer returns the pointer's first part, unescaped, and the pointer that is left.
func cutPointer(pointer string) (part, rest string) {
	part, rest = pointer[1:], ""
	if i := strings.IndexByte(part, '/'); i >= 0 {
		part, rest = part[:i], part[i:]
	}
	return unescapePointer.Replace(part), rest
}

// In one pass: "~01" is "~1", not a slash.
var unescapePointer = strings.NewReplacer("~0", "~", "~1", "/")

// child returns the member of that name, or the element of that index; nil if there is none.
func (n *jsonNode) child(part string) *jsonNode {
	switch n.kind {
	case '{':
		for member := n.down; member != nil; member = member.next {
			if member.name == part {
				return member
			}
		}
	case '[':
		return n.element(part)
	}
	return nil
}

// element returns the array element of that index: decimal digits without leading zeros.
func (n *jsonNode) element(index string) *jsonNode {
	if index == "" || !isDigit(index[0]) || len(index) > 1 && index[0] == '0' {
		return nil
	}
	i, err := strconv.Atoi(index)
	if err != nil {
		return nil
	}
	element := n.down
	for ; element != nil && i > 0; i-- {
		element = element.next
	}
	return element
}
