package fingerprint

import "slices"

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
	type change struct {
		begin, end int
		value      []byte
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
		return body, nil
	}
	return append(out, body[written:]...), nil
}

// span returns where a value begins and ends in the text.
func (d *jsonDoc) span(i uint32) (begin, end int) {
	begin = int(d.slots[i].at)
	p := jsonParser{jsonDoc: jsonDoc{src: d.src}, pos: begin}
	_, _ = p.value() // which has been read without a fault before
	return begin, p.pos
}
