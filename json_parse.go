package retrysafe

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// maxJSONDepth is how deep objects and arrays may nest.
const maxJSONDepth = 1000

// jsonNode is one value of a JSON text. encoding/json does not serve here: of several members with one name it keeps the
// last, and it replaces what is no text, so that different requests would look the same.
type jsonNode struct {
	kind     byte      // '{', '[', '"', or 0: a number, true, false, null
	excluded bool      // not to be written
	name     string    // of the member, if it is one, unescaped
	text     string    // of a string, unescaped; of a number, true, false, null, as written
	down     *jsonNode // the first inside an object (by name) or an array (in order)
	next     *jsonNode // the one behind it in the same object or array
}

// jsonParser reads a JSON text in one pass.
type jsonParser struct {
	src     string
	pos     int
	depth   int
	members []*jsonNode // of the objects that are open, the innermost object's last
	nodes   []jsonNode  // room for more
}

// parseJSON returns the value that body is. It returns an error if body is not exactly one JSON value (RFC 8259), if an
// object has two members with one name, if a string holds half a surrogate pair, if it is not UTF-8, or if it nests
// deeper than maxJSONDepth. Errors tell where, never what.
func parseJSON(body []byte) (*jsonNode, error) {
	p := jsonParser{src: string(body)}
	if !utf8.ValidString(p.src) {
		return nil, errors.New("retrysafe: JSON: not UTF-8")
	}
	p.space()
	root, err := p.value()
	if err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(p.src) {
		return nil, p.fail("more than one value")
	}
	return root, nil
}

func (p *jsonParser) value() (*jsonNode, error) {
	n := p.node()
	var err error
	switch c := p.peek(); {
	case c == '{':
		n.kind = c
		n.down, err = p.nested(p.object)
	case c == '[':
		n.kind = c
		n.down, err = p.nested(p.array)
	case c == '"':
		n.kind = c
		n.text, err = p.quoted()
	case c == '-' || isDigit(c):
		n.text, err = p.number()
	default:
		n.text, err = p.literal()
	}
	return n, err
}

// nested reads an object or an array, unless it is too deep.
func (p *jsonParser) nested(read func() (*jsonNode, error)) (*jsonNode, error) {
	if p.depth == maxJSONDepth {
		return nil, p.fail("nested too deep")
	}
	p.depth++
	p.pos++ // the opening brace or bracket
	first, err := read()
	p.depth--
	return first, err
}

// array returns its first element, linked to the others.
func (p *jsonParser) array() (first *jsonNode, err error) {
	link := &first
	for more := p.more(']', true); more; more = p.more(']', false) {
		n, err := p.value()
		if err != nil {
			return nil, err
		}
		*link = n
		link = &n.next
	}
	return first, p.closed(']')
}

// object returns the first of its members by name, linked to the others.
func (p *jsonParser) object() (*jsonNode, error) {
	mine := len(p.members)
	for more := p.more('}', true); more; more = p.more('}', false) {
		n, err := p.member()
		if err != nil {
			return nil, err
		}
		p.members = append(p.members, n)
	}
	if err := p.closed('}'); err != nil {
		return nil, err
	}
	first, err := p.link(p.members[mine:])
	p.members = p.members[:mine]
	return first, err
}

func (p *jsonParser) member() (*jsonNode, error) {
	if p.peek() != '"' {
		return nil, p.fail("want a member's name")
	}
	name, err := p.quoted()
	if err != nil {
		return nil, err
	}
	if p.space(); p.peek() != ':' {
		return nil, p.fail("want a colon")
	}
	p.pos++
	p.space()
	n, err := p.value()
	if err != nil {
		return nil, err
	}
	n.name = name
	return n, nil
}

// link sorts the members of one object and links each to the next.
func (p *jsonParser) link(members []*jsonNode) (first *jsonNode, err error) {
	slices.SortFunc(members, func(a, b *jsonNode) int { return compareUTF16(a.name, b.name) })
	for i, m := range members {
		if i == 0 {
			first = m
			continue
		}
		if members[i-1].name == m.name {
			return nil, p.fail("two members with one name in the object that ends here")
		}
		members[i-1].next = m
	}
	return first, nil
}

// more reads what comes before the next element, and reports whether there is one.
func (p *jsonParser) more(end byte, first bool) bool {
	p.space()
	if first {
		return p.peek() != end
	}
	if p.peek() != ',' {
		return false
	}
	p.pos++
	p.space()
	return true
}

func (p *jsonParser) closed(end byte) error {
	if p.peek() != end {
		return p.fail("want a comma or the end of the object or array")
	}
	p.pos++
	return nil
}

func (p *jsonParser) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// peek returns the next byte; 0, which is no part of any JSON text, at the end.
func (p *jsonParser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

// node returns a new node. Nodes are made by the chunk: a body can have one for every two of its bytes.
func (p *jsonParser) node() *jsonNode {
	if len(p.nodes) == 0 {
		p.nodes = make([]jsonNode, min(4+len(p.src)/16, 512))
	}
	n := &p.nodes[0]
	p.nodes = p.nodes[1:]
	return n
}

func (p *jsonParser) fail(what string) error {
	return fmt.Errorf("retrysafe: JSON: %s, at byte %d", what, p.pos)
}
