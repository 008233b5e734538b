package draft

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Schemas may contain themselves, in more ways than one.
const (
	maxDepth = 8    // how deep they are followed
	maxSteps = 2000 // and how far in all
)

// step reports whether a schema may still be followed. Schemas can contain themselves, so the depth and the number of
// steps are limited.
func (a *openAPI) step(depth int) bool {
	a.steps++
	return depth <= maxDepth && a.steps <= maxSteps
}

// resolve follows references within the document, and returns the object that it finds, or nil.
func (a *openAPI) resolve(v any) map[string]any {
	for range maxDepth {
		o := object(v)
		ref, ok := o["$ref"].(string)
		if !ok {
			return o
		}
		rest, local := strings.CutPrefix(ref, "#/")
		if !local {
			a.away = ref
			return nil
		}
		v = any(a.root)
		for part := range strings.SplitSeq(rest, "/") {
			v = object(v)[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		}
	}
	return nil
}

// properties returns those of a schema and of what it is composed of.
func (a *openAPI) properties(schema any, depth int) map[string]any {
	s := a.resolve(schema)
	all := map[string]any{}
	if !a.step(depth) {
		return all
	}
	maps.Copy(all, object(s["properties"]))
	for _, part := range list(s["allOf"]) {
		maps.Copy(all, a.properties(part, depth+1))
	}
	for _, choice := range []string{"oneOf", "anyOf"} {
		if options := list(s[choice]); len(options) > 0 {
			maps.Copy(all, a.properties(options[0], depth+1))
		}
	}
	return all
}

// required returns the names of the required members of a schema and of what it is composed of.
func (a *openAPI) required(schema any, depth int) (names []string) {
	s := a.resolve(schema)
	if !a.step(depth) {
		return nil
	}
	for _, n := range list(s["required"]) {
		names = append(names, text(n))
	}
	for _, part := range list(s["allOf"]) {
		names = append(names, a.required(part, depth+1)...)
	}
	for _, choice := range []string{"oneOf", "anyOf"} {
		if options := list(s[choice]); len(options) > 0 {
			names = append(names, a.required(options[0], depth+1)...)
		}
	}
	return names
}

// mediaSample returns an example of a body.
func (a *openAPI) mediaSample(media map[string]any) any {
	if v, ok := a.example(media); ok {
		return v
	}
	return a.sample(media["schema"], "", 0)
}

// parameterSample returns an example of a parameter.
func (a *openAPI) parameterSample(p map[string]any, name string) any {
	if v, ok := a.example(p); ok {
		return v
	}
	return a.sample(p["schema"], name, 0)
}

// example returns the example that the document gives. Bodies and parameters have an object of named examples, schemas
// a list.
func (a *openAPI) example(of map[string]any) (any, bool) {
	if v, ok := of["example"]; ok {
		return v, true
	}
	if all := list(of["examples"]); len(all) > 0 {
		return all[0], true
	}
	named := object(of["examples"])
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if v, ok := a.resolve(named[name])["value"]; ok {
			return v, true
		}
	}
	return nil, false
}

// sample returns a value of a schema.
func (a *openAPI) sample(schema any, name string, depth int) any {
	s := a.resolve(schema)
	if s == nil || !a.step(depth) {
		return "text"
	}
	if v, ok := a.example(s); ok {
		return v
	}
	for _, given := range []string{"const", "default"} {
		if v, ok := s[given]; ok {
			return v
		}
	}
	if words := list(s["enum"]); len(words) > 0 {
		return words[0]
	}
	switch typeOf(s) {
	case "string":
		return stringSample(s, name)
	case "integer", "number":
		return numberSample(s, name)
	case "boolean":
		return false
	case "array":
		return []any{a.sample(s["items"], name, depth+1)}
	}
	return a.objectSample(s, depth)
}

// objectSample returns the required members, or all if none is required, and always an amount.
func (a *openAPI) objectSample(s map[string]any, depth int) any {
	properties, required := a.properties(s, 0), a.required(s, 0)
	if len(properties) == 0 && len(required) == 0 {
		for _, choice := range []string{"allOf", "oneOf", "anyOf"} {
			if options := list(s[choice]); len(options) > 0 {
				return a.sample(options[0], "", depth+1)
			}
		}
	}
	all := map[string]any{}
	for name, p := range properties {
		if a.resolve(p)["readOnly"] == true {
			continue
		}
		if len(required) == 0 || slices.Contains(required, name) || isAmount(name) && depth == 0 {
			all[name] = a.sample(p, name, depth+1)
		}
	}
	return all
}

// typeOf returns a schema's type. Version 3.1 allows several; the first that is not null counts.
func typeOf(s map[string]any) string {
	for _, t := range list(s["type"]) {
		if t != "null" {
			return text(t)
		}
	}
	return text(s["type"])
}

// stringSample returns a text that fits the format of a schema.
func stringSample(s map[string]any, name string) string {
	switch text(s["format"]) {
	case "uuid":
		if madeUp(name, true) {
			return "{{uuid}}"
		}
		return "00000000-0000-4000-8000-000000000000"
	case "date-time":
		return "{{time}}"
	case "date":
		return "2030-01-31"
	case "email":
		return "probe@example.com"
	case "uri", "url":
		return "https://example.com/"
	}
	switch {
	case isAmount(name):
		return "10.00"
	case plain(name) == "currency" || strings.HasSuffix(plain(name), "currencycode"):
		return "USD"
	case madeUp(name, true):
		return "{{uuid}}"
	}
	sample := "text"
	if least, err := wholeOf(s["minLength"]); err == nil && least > len(sample) && least < 1000 {
		sample += strings.Repeat("x", least-len(sample))
	}
	if most, err := wholeOf(s["maxLength"]); err == nil && most >= 0 && most < len(sample) {
		sample = sample[:most]
	}
	return sample
}

// numberSample returns the smallest number that a schema allows, and for amounts one that can get a generator.
func numberSample(s map[string]any, name string) any {
	least, err := wholeOf(s["minimum"])
	if err != nil {
		least = 1
	}
	if isAmount(name) && least < 500 {
		least = 500
	}
	if most, err := wholeOf(s["maximum"]); err == nil && most < least {
		return most
	}
	return least
}

// wholeOf returns a value of the document as an integer.
func wholeOf(v any) (int, error) {
	var n int
	_, err := fmt.Sscan(text(v), &n)
	return n, err
}

// object returns a value as an object, or nil.
func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// list returns a value as a list, or nil.
func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// text returns a scalar as text, and other values as JSON.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case map[string]any, []any:
		b, _ := json.Marshal(v)
		return string(b)
	}
	return fmt.Sprint(v)
}

// texts returns the elements of a list as texts. A scalar counts as a list of one.
func texts(v any) []string {
	elements, ok := v.([]any)
	if !ok {
		elements = []any{v}
	}
	all := make([]string, len(elements))
	for i, e := range elements {
		all[i] = text(e)
	}
	return all
}
