package settings

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Show returns the settings of a struct that are set or have a value, as YAML in the order of the fields. What is true
// or false always has a value. settings is a pointer.
func Show(settings any) string { return show(structAt(settings), "") }

func show(v reflect.Value, indent string) string {
	var b strings.Builder
	excluder, _ := v.Interface().(Excluder)
	for _, f := range fieldsOf(v) {
		if excluder != nil && excluder.Excludes(f.name) {
			continue
		}
		value := f.Value
		if s := f.setting(); s != nil {
			if value = s.value(); !s.isSet() && value.IsZero() && value.Kind() != reflect.Bool {
				continue
			}
		}
		if text := showValue(value, indent); text != "" {
			b.WriteString(indent + f.name + ":" + text + "\n")
		}
	}
	return b.String()
}

// ShowValue returns what follows a name and its colon, for a YAMLShower that has other values in it: text, a number, a
// list of texts, or a struct of settings. indent is what the line with the name begins with.
func ShowValue(v any, indent string) string {
	to := reflect.New(reflect.TypeOf(v)).Elem()
	to.Set(reflect.ValueOf(v))
	return showValue(to, indent)
}

// showValue returns what follows a name and its colon; empty for a mapping without entries.
func showValue(v reflect.Value, indent string) string {
	switch v := v.Interface().(type) {
	case string:
		return " " + quote(v)
	case bool, int, int64, float64, time.Duration:
		return fmt.Sprint(" ", v)
	case []string:
		quoted := make([]string, len(v))
		for i, item := range v {
			quoted[i] = quote(item)
		}
		return " [" + strings.Join(quoted, ", ") + "]"
	case YAMLShower:
		return v.ShowYAML(indent)
	case encoding.TextMarshaler:
		if text, err := v.MarshalText(); err == nil {
			return " " + quote(string(text))
		}
	case fmt.Stringer: // one that has no text is written as a mapping
		if text := v.String(); text != "" {
			return " " + quote(text)
		}
	}
	pointer := v.Kind() == reflect.Pointer
	if pointer && v.IsNil() {
		return ""
	}
	if pointer {
		v = v.Elem()
	}
	text := strings.TrimSuffix(show(v, indent+"  "), "\n")
	switch {
	case text != "":
		return "\n" + text
	case pointer:
		return " {}"
	}
	return ""
}

// quote writes text so that YAML reads the same. Plain words stay plain.
func quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	switch {
	case s != "" && s[0] != '-' && strings.Trim(s, plain) == "" && !isReserved(s):
		return s
	case strings.ContainsAny(s, "\n\r\t"):
		return strconv.Quote(s)
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// isReserved reports whether YAML reads a word as something other than text.
func isReserved(s string) bool {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return true
	}
	return false
}
