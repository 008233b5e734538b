package config

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Setting is a value that may be set, and where it was. Its tags in a struct are
//
//	yaml     its name in the file
//	form     how its text is read: a name in forms, or words with | between them; if missing, the type decides. Of a
//	         mapping, how a single value in its place is read
//	default  its text where nothing is set
//	restart  "change" if a running proxy cannot change it, "presence" if it can neither add nor remove it
//	sets     the library's option that it sets: a path of names, from the option that the struct around it sets; if
//	         missing, code does
type Setting[T any] struct {
	Value T
	Set   bool
	At    yamlfile.Position
}

// Or returns s, or other if s is not set.
func (s Setting[T]) Or(other Setting[T]) Setting[T] {
	if s.Set {
		return s
	}
	return other
}

// Default sets the value of s, unless s is set. Afterwards s is not set either: nothing in the file or on the command
// line says it.
func (s *Setting[T]) Default(v T) {
	if !s.Set {
		s.Value = v
	}
}

// setting is a *Setting of any type.
type setting interface {
	isSet() bool
	value() reflect.Value
	at() yamlfile.Position
	place(at yamlfile.Position) // says that it is set, and where
}

func (s *Setting[T]) isSet() bool                { return s.Set }
func (s *Setting[T]) value() reflect.Value       { return reflect.ValueOf(&s.Value).Elem() }
func (s *Setting[T]) at() yamlfile.Position      { return s.At }
func (s *Setting[T]) place(at yamlfile.Position) { s.Set, s.At = true, at }

// field is a field of a struct of settings.
type field struct {
	name, form, fallback, sets, restart string

	in string // its name in the program: Route.Lease
	reflect.Value
}

// fieldsOf returns the fields of a struct that have a name in the file, in their order.
func fieldsOf(v reflect.Value) (all []field) {
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		if name, ok := tag.Lookup("yaml"); ok {
			all = append(all, field{
				name: name, form: tag.Get("form"), fallback: tag.Get("default"), sets: tag.Get("sets"),
				restart: tag.Get("restart"),
				in:      v.Type().Name() + "." + v.Type().Field(i).Name, Value: v.Field(i),
			})
		}
	}
	return all
}

// find returns the field with a name, or with a path of names as in tls.cert. It panics if there is none: names are
// those of the program, not of its users.
func find(v reflect.Value, path string) field {
	first, rest, nested := strings.Cut(path, ".")
	for _, f := range fieldsOf(v) {
		if f.name == first && nested {
			return find(f.Value, rest)
		}
		if f.name == first {
			return f
		}
	}
	panic("config: no field " + path)
}

// setting returns the field as a setting; nil if it is a struct of settings.
func (f field) setting() setting {
	s, _ := f.Addr().Interface().(setting)
	return s
}

// parseValue reads the text of the field's value, or of an item if the value is a list.
func (f field) parseValue(text string) (any, error) {
	if strings.Contains(f.form, "|") {
		if _, err := yamlfile.Choice(strings.Split(f.form, "|")...)(text); err != nil {
			return nil, err
		}
	}
	v := reflect.New(f.setting().value().Type())
	switch own, ok := v.Interface().(encoding.TextUnmarshaler); {
	case ok:
		err := own.UnmarshalText([]byte(text))
		return v.Elem().Interface(), err
	case strings.Contains(f.form, "|"):
		return text, nil
	}
	return forms[cmp.Or(f.form, v.Elem().Type().String())].parse(text)
}

// parse sets the field to what a text says.
func (f field) parse(text string) error {
	v, err := f.parseValue(text)
	if err != nil {
		return err
	}
	f.setting().value().Set(reflect.ValueOf(v))
	f.setting().place(yamlfile.Position{})
	return nil
}

// read reads the field from a file.
func (f field) read(r *yamlfile.Reader, n ast.Node) {
	s := f.setting()
	if own, ok := f.Addr().Interface().(interface {
		read(*yamlfile.Reader, ast.Node)
	}); ok {
		own.read(r, n)
		return
	}
	if s == nil {
		readMapping(r, n, f.name, f.form, f.Addr())
		return
	}
	switch v := s.value(); {
	case v.Kind() == reflect.Slice:
		s.place(yamlfile.Place(n))
		yamlfile.List(v.Addr().Interface().(*[]string), func(text string) (string, error) {
			item, err := f.parseValue(text)
			if err != nil {
				return "", err
			}
			return item.(string), nil
		})(r, n)
	case isMapping(v):
		s.place(yamlfile.Place(n))
		readMapping(r, n, f.name, f.form, v.Addr())
	default:
		if text, ok := r.Text(n); !ok {
			return
		} else if err := f.parse(text); err != nil {
			r.Wrong(n, err)
			return
		}
		s.place(yamlfile.Place(n))
	}
}

// isMapping reports whether the value of a setting is written as a mapping.
func isMapping(v reflect.Value) bool {
	_, text := v.Addr().Interface().(encoding.TextUnmarshaler)
	return v.Kind() == reflect.Struct && !text
}

// readers returns what reads the fields of a struct.
func readers(v reflect.Value) map[string]yamlfile.Field {
	all := map[string]yamlfile.Field{}
	for _, f := range fieldsOf(v) {
		all[f.name] = f.read
	}
	return all
}

// readMapping reads a mapping into the struct that to points at. The struct may have a method that reads a single
// value in place of the mapping, in the form of the field, and one that looks at the mapping afterwards.
func readMapping(r *yamlfile.Reader, n ast.Node, what, form string, to reflect.Value) {
	if to.Elem().Kind() == reflect.Pointer {
		to.Elem().Set(reflect.New(to.Elem().Type().Elem()))
		to = to.Elem()
	}
	if short, ok := to.Interface().(interface {
		readScalar(r *yamlfile.Reader, n ast.ScalarNode, form string)
	}); ok {
		if scalar, alone := n.(ast.ScalarNode); alone {
			short.readScalar(r, scalar, form)
			return
		}
	}
	r.Mapping(n, what, readers(to.Elem()))
	if checked, ok := to.Interface().(interface {
		checkMapping(*yamlfile.Reader, ast.Node)
	}); ok {
		checked.checkMapping(r, n)
	}
}

// fillIn gives each setting of a struct that is not set its default.
func fillIn(v reflect.Value) error {
	for _, f := range fieldsOf(v) {
		switch s := f.setting(); {
		case s == nil && f.Kind() == reflect.Struct:
			if err := fillIn(f.Value); err != nil {
				return err
			}
		case s == nil || s.isSet() || f.fallback == "":
		default:
			v, err := f.parseValue(f.fallback)
			if err != nil {
				return fmt.Errorf("the default of %s: %w", f.name, err)
			}
			s.value().Set(reflect.ValueOf(v))
		}
	}
	return nil
}

// inherit copies each setting of a struct that is not set from another struct of the same type.
func inherit(to, from reflect.Value) {
	for i, f := range fieldsOf(to) {
		other := fieldsOf(from)[i]
		if s := f.setting(); s == nil {
			inherit(f.Value, other.Value)
		} else if !s.isSet() {
			f.Set(other.Value)
		}
	}
}

// withOptions calls do with each setting of a struct that sets an option of the library, and with that option.
func withOptions(v, options reflect.Value, do func(s setting, option reflect.Value)) {
	for _, f := range fieldsOf(v) {
		if f.sets == "" {
			continue
		}
		option := options
		for name := range strings.SplitSeq(f.sets, ".") {
			option = option.FieldByName(name)
		}
		if !option.IsValid() {
			panic("config: no option " + f.sets)
		}
		if s := f.setting(); s != nil {
			do(s, option)
		} else {
			withOptions(f.Value, option, do)
		}
	}
}

// apply sets the library's options to the settings of a struct that are set or have a default. Both are pointers.
func apply(settings, options any) {
	withOptions(reflect.ValueOf(settings).Elem(), reflect.ValueOf(options).Elem(), func(s setting, option reflect.Value) {
		if s.isSet() || !s.value().IsZero() {
			option.Set(s.value().Convert(option.Type()))
		}
	})
}

// adopt is the reverse of apply: it gives the settings of a struct the values of the library's options. A setting whose
// option has no value stays as it is.
func adopt(settings, options any) {
	withOptions(reflect.ValueOf(settings).Elem(), reflect.ValueOf(options).Elem(), func(s setting, option reflect.Value) {
		if !option.IsZero() {
			s.value().Set(option.Convert(s.value().Type()))
		}
	})
}

// show returns the settings of a struct that are set or have a value, as YAML in the order of the fields. What is true or
// false always has a value.
func show(v reflect.Value, indent string) string {
	var b strings.Builder
	fields := fieldsOf(v)
	if t, ok := v.Interface().(Route); ok && !t.isGuarded() {
		fields = fields[:2] // upstream and guarded; nothing else is in force
	}
	for _, f := range fields {
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
	case routes:
		text := ""
		for _, t := range v {
			text += "\n" + indent + "  " + strconv.Quote(t.Pattern.Value) +
				":" + showValue(reflect.ValueOf(&t).Elem(), indent+"  ")
		}
		return text
	case callers:
		text := ""
		for _, same := range v {
			text += "\n" + indent + "  " + strconv.Quote(same.name) + ":" + showValue(reflect.ValueOf(same.known), "")
		}
		return text
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
