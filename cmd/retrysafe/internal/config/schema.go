package config

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

// schema is a part of a JSON Schema.
type schema map[string]any

// schemaText are the types of text that YAML may take for a number.
var schemaText = []string{"string", "integer", "number"}

// pattern is the schema of text that matches an expression.
func pattern(expression string) schema { return schema{"type": "string", "pattern": expression} }

// Schema returns the JSON Schema of a file, for editors. It knows the names of the settings, what each is for, and the
// form of its value. What makes no sense together, only Parse finds.
func Schema() string {
	root := objectSchema(describe())
	route := root["properties"].(schema)["defaults"].(schema)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "The file of retrysafe proxy --config"
	root["$defs"] = schema{"route": schema{
		"type": "object", "additionalProperties": false, "properties": route["properties"],
	}}
	perRoute := schema{"$ref": "#/$defs/route"}
	root["properties"].(schema)["defaults"] = schema{"$ref": "#/$defs/route", "description": route["description"]}
	root["properties"].(schema)["routes"].(schema)["additionalProperties"] = schema{
		"anyOf": []schema{perRoute, {"type": "null"}},
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

func objectSchema(entries []entry) schema {
	properties := schema{}
	for _, e := range entries {
		s := e.schema()
		s["description"] = markdownLink.ReplaceAllString(e.text, "$1") // the links are relative to the page
		var standard any = e.standard
		if json.Unmarshal([]byte(e.standard), &standard) == nil || e.standard != "" {
			s["default"] = standard // true, a number, or else text
		}
		properties[e.name] = s
	}
	return schema{"type": "object", "additionalProperties": false, "properties": properties}
}

// schema returns what the value of a field may be.
func (e entry) schema() schema {
	value := e.Value
	if s := e.setting(); s != nil {
		value = s.value()
	}
	switch {
	case value.Type() == reflect.TypeFor[routes]():
		return schema{"type": "object"}
	case value.Type() == reflect.TypeFor[callers]():
		names := schema{"type": "array", "minItems": 1, "items": schema{"type": schemaText}}
		return schema{"type": "object", "additionalProperties": names}
	case e.inner != nil && e.form != "":
		return schema{"anyOf": []schema{objectSchema(e.inner), e.ofText(value)}}
	case e.inner != nil:
		return objectSchema(e.inner)
	case value.Kind() == reflect.Slice:
		return schema{"type": "array", "minItems": 1, "items": e.ofText(reflect.New(value.Type().Elem()).Elem())}
	}
	return e.ofText(value)
}

// ofText returns what the text of a field may be, or of a single value in place of its mapping.
func (e entry) ofText(value reflect.Value) schema {
	if known, ok := forms[cmp.Or(e.form, value.Type().String())]; ok {
		return maps.Clone(known.schema)
	}
	return schema{"enum": strings.Split(e.form, "|")}
}
