package fingerprint

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// Fields chooses parts of a JSON body by JSON pointers (RFC 6901), such as "/amount" or "/items/0/sku". At most one of
// its lists may be set; without one it is everything. A pointer to a value that does not exist is not an error: it
// finds nothing.
type Fields struct {
	// Include chooses these values and nothing else: name every value that makes one request differ from another.
	// Requests that differ elsewhere count as the same, and so do all requests that have none of these values.
	Include []string
	// Exclude chooses everything but these values: timestamps, request IDs and others that may change from one retry
	// to the next.
	Exclude []string
	// Numbers says when two numbers are equal. Default: if they are written alike.
	Numbers Numbers
}

// Validate returns an error if both lists are set, if Numbers is none of the constants, or if one holds what is not a
// JSON pointer; and for the pointer "" in Exclude, which would leave nothing. Call it where a configuration is read.
func (f Fields) Validate() error {
	if f.Numbers > AsDoubles {
		return fmt.Errorf("fingerprint: fields: Numbers is %d; use AsWritten, ByValue or AsDoubles", f.Numbers)
	}
	if len(f.Include) > 0 && len(f.Exclude) > 0 {
		return errors.New("fingerprint: fields: set Include or Exclude, not both")
	}
	for _, pointer := range f.Include {
		if err := validatePointer(pointer); err != nil {
			return err
		}
	}
	for _, pointer := range f.Exclude {
		if pointer == "" {
			return errors.New(`fingerprint: fields: excluding "" leaves nothing`)
		}
		if err := validatePointer(pointer); err != nil {
			return err
		}
	}
	return nil
}

// Canonical returns the canonical JSON of the values that are chosen from body.
//
//   - With Include it is an object that has each pointer with its value, {"/amount":100,"/items/0/sku":"a"}. A
//     pointer that finds nothing is left out, which differs from null.
//   - With Exclude it is the body without the parts that are excluded. Array elements are counted before any is
//     removed.
//   - Otherwise it is CanonicalJSON(body).
//   - Numbers may be written in another way; with AsDoubles it is the canonical form of RFC 8785.
//
// It returns an error if CanonicalJSON would, even if the fault is outside of the chosen values, or if f is not valid.
func (f Fields) Canonical(body []byte) ([]byte, error) { return f.appendCanonical(nil, body) }

func (f Fields) appendCanonical(b, body []byte) ([]byte, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	d, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	d.numbers = f.Numbers
	for _, pointer := range f.Exclude {
		if i, ok := d.at(pointer); ok {
			d.slots[i].next |= jsonExcluded
		}
	}
	if len(f.Include) > 0 {
		b = d.appendIncluded(b, f.Include)
	} else {
		b = d.appendTo(slices.Grow(b, len(body)), 0)
	}
	if d.noDouble {
		return nil, errNoDouble
	}
	return b, nil
}

func (d *jsonDoc) appendIncluded(b []byte, include []string) []byte {
	pointers := slices.Clone(include)
	slices.SortFunc(pointers, compareUTF16[string])
	b = append(b, '{')
	start := len(b)
	for _, pointer := range slices.Compact(pointers) {
		i, ok := d.at(pointer)
		if !ok {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, pointer), ':')
		b = d.appendTo(b, i)
	}
	return append(b, '}')
}

// JSONField returns the value at a JSON pointer in body as text: a string's own text, unescaped; a number as it was
// written; true, false and null in words; objects and arrays as canonical JSON. The string "5" and the number 5 give
// the same text. ok is false if the pointer leads nowhere.
//
// It returns an error if CanonicalJSON(body) would, or if pointer is not a JSON pointer.
func JSONField(body []byte, pointer string) (text string, ok bool, err error) {
	if err := validatePointer(pointer); err != nil {
		return "", false, err
	}
	d, err := parseJSON(body)
	if err != nil {
		return "", false, err
	}
	i, ok := d.at(pointer)
	switch {
	case !ok:
		return "", false, nil
	case d.kind(i) == '{' || d.kind(i) == '[':
		return string(d.appendTo(nil, i)), true, nil
	}
	return string(d.text(i)), true, nil
}

// JSONKey is JSONField for keys and tags. A null counts as missing, because requests with null must not share a key; the
// string "null" does not. text is "" if ok is false.
func JSONKey(body []byte, pointer string) (text string, ok bool, err error) {
	text, ok, err = JSONField(body, pointer)
	if text == "null" { // or the string "null"
		canonical, _ := Fields{Include: []string{pointer}}.Canonical(body)
		if bytes.HasSuffix(canonical, []byte(":null}")) {
			return "", false, nil
		}
	}
	return text, ok, err
}

func invalidPointer(pointer, why string) error {
	return fmt.Errorf("fingerprint: %q is not a JSON pointer: %s", pointer, why)
}
