package settings

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

// Schema is a part of a JSON Schema.
type Schema map[string]any

// Pattern returns the schema of text that matches an expression.
func Pattern(expression string) Schema { return Schema{"type": "string", "pattern": expression} }

// AnyText returns the schema of any text, also of text such as 402, which YAML takes for a number.
func AnyText() Schema { return Schema{"type": []string{"string", "integer", "number"}} }

// TextPattern is like Pattern, for text that YAML may take for a number.
func TextPattern(expression string) Schema {
	s := AnyText()
	s["pattern"] = expression
	return s
}

// Document returns the JSON of a schema as a file, with a title.
func (s Schema) Document(title string) string {
	s = maps.Clone(s)
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", title
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

// Schema returns the JSON Schema of a mapping with the given entries. It knows their names, what each is for, and the
// form of its value. What makes no sense together, only the program finds.
func (k Kind) Schema(entries []Entry) Schema {
	properties := Schema{}
	for _, e := range entries {
		s := k.schemaOf(e)
		s["description"] = markdownLink.ReplaceAllString(e.Text, "$1") // the links are relative to the page
		var standard any = e.Default
		if json.Unmarshal([]byte(e.Default), &standard) == nil || e.Default != "" {
			s["default"] = standard // true, a number, or else text
		}
		properties[e.Name] = s
	}
	return Schema{"type": "object", "additionalProperties": false, "properties": properties}
}

// schemaOf returns what the value of a field may be.
func (k Kind) schemaOf(e Entry) Schema {
	value := e.of.content()
	own, ok := value.Interface().(Describer)
	switch {
	case ok:
		return own.JSONSchema()
	case e.Inner != nil && e.of.form != "":
		return Schema{"anyOf": []Schema{k.Schema(e.Inner), k.ofText(e, value)}}
	case e.Inner != nil:
		return k.Schema(e.Inner)
	case value.Kind() == reflect.Slice:
		return Schema{"type": "array", "minItems": 1, "items": k.ofText(e, reflect.New(value.Type().Elem()).Elem())}
	}
	return k.ofText(e, value)
}

// ofText returns what the text of a field may be, or of a single value in place of its mapping.
func (k Kind) ofText(e Entry, value reflect.Value) Schema {
	if known, ok := k.form(e.of, value.Type()); ok {
		return maps.Clone(known.Schema)
	}
	return Schema{"enum": strings.Split(e.of.form, "|")}
}
