package fingerprint

import (
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/internal/jsonpointer"
)

// ReplaceJSON returns body with the values at the JSON pointers replaced by those that from has there, as they are
// written. All other bytes stay as they are. A pointer that leads nowhere in one of the two changes nothing, and neither
// does one into a value that another pointer replaces. If nothing changes, body itself is returned.
//
// It returns an error if one of the two is not JSON (see [CanonicalJSON]), or if a pointer is none.
func ReplaceJSON(body, from []byte, pointers []string) ([]byte, error) {
	for _, p := range pointers {
		if err := validatePointer(p); err != nil {
			return nil, err
		}
	}
	to, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	source, err := parseJSON(from)
	if err != nil {
		return nil, err
	}
	var changes []change
	for _, p := range pointers {
		i, found := to.at(p)
		j, given := source.at(p)
		if found && given {
			begin, end := to.span(i)
			first, last := source.span(j)
			changes = append(changes, change{begin, end, from[first:last]})
		}
	}
	return replaced(body, changes), nil
}

// change is a part of a text, and what takes its place.
type change struct {
	begin, end int
	value      []byte
}

// replaced returns body with the changes made. One inside of another one is left out. If nothing changes, body itself is
// returned.
func replaced(body []byte, changes []change) []byte {
	slices.SortFunc(changes, func(a, b change) int { return a.begin - b.begin })
	var out []byte
	written, changed := 0, false
	for _, c := range changes {
		if c.begin < written {
			continue
		}
		out = append(append(out, body[written:c.begin]...), c.value...)
		changed = changed || string(body[c.begin:c.end]) != string(c.value)
		written = c.end
	}
	if !changed {
		return body
	}
	return append(out, body[written:]...)
}

// SetJSON returns body with the value at a JSON pointer set to value, which is JSON. All other bytes stay as they are.
// A member that the body lacks becomes the first of its object; where there is no such object, body itself is
// returned. It returns an error if body or value is not JSON (see [CanonicalJSON]), or if pointer is not a JSON
// pointer.
func SetJSON(body []byte, pointer string, value []byte) ([]byte, error) {
	if err := validatePointer(pointer); err != nil {
		return nil, err
	}
	d, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	if _, err := parseJSON(value); err != nil {
		return nil, err
	}
	if i, ok := d.at(pointer); ok {
		begin, end := d.span(i)
		return slices.Concat(body[:begin], value, body[end:]), nil
	}
	last := strings.LastIndexByte(pointer, '/')
	parent, ok := d.at(pointer[:last])
	if !ok || d.kind(parent) != '{' {
		return body, nil
	}
	begin := int(d.slots[parent].at) + 1
	member := append(appendQuoted(nil, jsonpointer.Unescape(pointer[last+1:])), ':')
	member = append(member, value...)
	if d.first(parent) != 0 {
		member = append(member, ',')
	}
	return slices.Concat(body[:begin], member, body[begin:]), nil
}

// span returns where a value begins and ends in the text.
func (d *jsonDoc) span(i uint32) (begin, end int) {
	begin = int(d.slots[i].at)
	p := jsonParser{jsonDoc: jsonDoc{src: d.src}, pos: begin}
	_, _ = p.value() // which has been read without a fault before
	return begin, p.pos
}
