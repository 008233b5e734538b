package fingerprint

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

const (
	// maxJSONDepth is how deep objects and arrays may nest.
	maxJSONDepth = 1000
	// maxJSONBytes is how long a body may be, so that positions fit a jsonSlot.
	maxJSONBytes = 1 << 30
)

// jsonDoc is a JSON text that has been parsed. Why this is not encoding/json is in design.md.
//
// A body can have a value for every two of its bytes, and many bodies may be in memory at once, so values are small:
// they have no text and no pointers, only positions.
type jsonDoc struct {
	src       []byte
	unescaped []byte     // the names that have escapes, without them
	slots     []jsonSlot // in the order of the text
	scratch   []byte     // see text
	numbers   Numbers    // how they are written
	noDouble  bool       // a number was to be written as a double, and is none
}

// jsonSlot is a value, or belongs to one:
//
//   - A value, named by the index of its slot. at is where it begins in src; next is the next value in the same array,
//     or in the same object by name, and two flags.
//   - Behind the slot of an object: next is its first member by name.
//   - Before a member's value, its name. at is where it begins in src, or, if flagged, in unescaped; next is its
//     length.
//
// The first element of an array follows the array. 0 is the root, which never follows a value: as next it means none.
type jsonSlot struct{ at, next uint32 }

const (
	jsonExcluded  = 1 << 31 // not to be written
	jsonNotEmpty  = 1 << 30 // an array that has elements
	jsonUnescaped = 1 << 31 // of a name
	jsonIndex     = 1<<30 - 1
)

// jsonParser reads a JSON text in one pass.
type jsonParser struct {
	jsonDoc
	pos     int
	depth   int
	members []uint32 // of the objects that are open, the innermost object's last
}

// parseJSON reads the value that body is. It returns an error if body is not exactly one JSON value (RFC 8259), if an
// object has two members with one name, if a string holds half a surrogate pair, if it is not UTF-8, or if it nests
// deeper than maxJSONDepth. Errors give the position and the kind of fault, never the text. body must not change while
// the result is in use.
func parseJSON(body []byte) (*jsonDoc, error) {
	if len(body) > maxJSONBytes {
		return nil, fmt.Errorf("fingerprint: JSON of %d bytes; at most %d can be read", len(body), maxJSONBytes)
	}
	if !utf8.Valid(body) {
		return nil, errors.New("fingerprint: JSON: not UTF-8")
	}
	p := jsonParser{jsonDoc: jsonDoc{src: body, slots: make([]jsonSlot, 0, countSlots(body))}}
	p.space()
	if _, err := p.value(); err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(p.src) {
		return nil, p.fail("more than one value")
	}
	return &p.jsonDoc, nil
}

// countSlots returns how many slots a JSON text needs, so that all are allocated at once. For a text that is not
// JSON it returns no more than a JSON text of the same length could need.
func countSlots(src []byte) int {
	n, last := 1, byte(0)
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch c {
		case ' ', '\t', '\n', '\r':
			continue
		case '"':
			i = endOfString(src, i) - 1
		case ',', ':', '[':
			n++
		case '{':
			n += 2
		case ']', '}':
			if last == '[' || last == '{' {
				n--
			}
		}
		last = c
	}
	return min(n, 2*len(src)/3+2)
}

// value reads a value and returns its index.
func (p *jsonParser) value() (uint32, error) {
	i := p.add(jsonSlot{at: uint32(p.pos)})
	var err error
	switch c := p.peek(); {
	case c == '{':
		err = p.nested(p.object, i)
	case c == '[':
		err = p.nested(p.array, i)
	case c == '"':
		_, err = p.quoted()
	case c == '-' || isDigit(c):
		err = p.number()
	default:
		err = p.literal()
	}
	return i, err
}

// nested reads the object or array i, unless it is too deep.
func (p *jsonParser) nested(read func(i uint32) error, i uint32) error {
	if p.depth == maxJSONDepth {
		return p.fail("nested too deep")
	}
	p.depth++
	p.pos++ // the opening brace or bracket
	err := read(i)
	p.depth--
	return err
}

// array links the elements of array i to each other.
func (p *jsonParser) array(i uint32) error {
	last := uint32(0)
	for more := p.more(']', true); more; more = p.more(']', false) {
		element, err := p.value()
		switch {
		case err != nil:
			return err
		case last == 0:
			p.slots[i].next |= jsonNotEmpty
		default:
			p.slots[last].next |= element
		}
		last = element
	}
	return p.closed(']')
}

// object links the members of object i to each other, by name.
func (p *jsonParser) object(i uint32) error {
	p.add(jsonSlot{})
	mine := len(p.members)
	for more := p.more('}', true); more; more = p.more('}', false) {
		m, err := p.member()
		if err != nil {
			return err
		}
		p.members = append(p.members, m)
	}
	if err := p.closed('}'); err != nil {
		return err
	}
	first, err := p.link(p.members[mine:])
	p.slots[i+1].next = first
	p.members = p.members[:mine]
	return err
}

func (p *jsonParser) member() (uint32, error) {
	if p.peek() != '"' {
		return 0, p.fail("want a member's name")
	}
	start := p.pos + 1
	escaped, err := p.quoted()
	if err != nil {
		return 0, err
	}
	name := jsonSlot{at: uint32(start), next: uint32(p.pos - 1 - start)}
	if escaped {
		name.at = uint32(len(p.unescaped))
		p.unescaped = appendUnescaped(p.unescaped, p.src[start:p.pos-1])
		name.next = uint32(len(p.unescaped)) - name.at | jsonUnescaped
	}
	p.add(name)
	if p.space(); p.peek() != ':' {
		return 0, p.fail("want a colon")
	}
	p.pos++
	p.space()
	return p.value()
}

// link sorts the members of one object, links each to the next, and returns the first.
func (p *jsonParser) link(members []uint32) (first uint32, err error) {
	slices.SortFunc(members, func(a, b uint32) int { return compareUTF16(p.name(a), p.name(b)) })
	for i, m := range members {
		if i == 0 {
			first = m
			continue
		}
		if bytes.Equal(p.name(members[i-1]), p.name(m)) {
			return 0, p.fail("two members with one name in the object that ends here")
		}
		p.slots[members[i-1]].next |= m
	}
	return first, nil
}

// more reads the separator or the end after an element, and reports whether another element follows.
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

func (p *jsonParser) add(s jsonSlot) uint32 {
	p.slots = append(p.slots, s)
	return uint32(len(p.slots) - 1)
}

func (p *jsonParser) fail(what string) error {
	return fmt.Errorf("fingerprint: JSON: %s, at byte %d", what, p.pos)
}

// kind returns the first byte of value i: '{', '[' and '"' tell what it is; anything else is a number, true, false or
// null.
func (d *jsonDoc) kind(i uint32) byte { return d.src[d.slots[i].at] }

// first returns the first value inside an object (by name) or an array (in order); 0: there is none.
func (d *jsonDoc) first(i uint32) uint32 {
	switch {
	case d.kind(i) == '{':
		return d.slots[i+1].next
	case d.kind(i) == '[' && d.slots[i].next&jsonNotEmpty != 0:
		return i + 1
	}
	return 0
}

// next returns the value behind i in the same object or array; 0: there is none.
func (d *jsonDoc) next(i uint32) uint32 { return d.slots[i].next & jsonIndex }

// name returns the name of member i, unescaped.
func (d *jsonDoc) name(i uint32) []byte {
	s := d.slots[i-1]
	if s.next&jsonUnescaped != 0 {
		return d.unescaped[s.at : s.at+s.next&^jsonUnescaped]
	}
	return d.src[s.at : s.at+s.next]
}

// text returns a string's own text, unescaped, or a number, true, false or null as it was written. It is valid until
// the next call.
func (d *jsonDoc) text(i uint32) []byte {
	rest := d.src[d.slots[i].at:]
	if rest[0] != '"' {
		return rest[:endOfScalar(rest)]
	}
	quoted := rest[1 : endOfString(rest, 0)-1]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted
	}
	d.scratch = appendUnescaped(d.scratch[:0], quoted)
	return d.scratch
}
