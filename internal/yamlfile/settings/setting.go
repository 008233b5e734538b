package settings

import (
	"reflect"
	"strings"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Setting is a value that may be set, and where it was. Its tags in a struct are
//
//	yaml     its name in the file; of an embedded struct ",inline", which has its fields read as those around it
//	form     how its text is read: the name of a Form, or words with | between them; if missing, the type decides. Of a
//	         mapping, how a single value in its place is read
//	default  its text where nothing is set
//	restart  "change" if a running program cannot change it, "presence" if it can neither add nor remove it
//	sets     the option of the program that it sets: a path of names, from the option that the struct around it sets; if
//	         missing, code does
//
// T is a type that a Form has, or one that reads its text itself (encoding.TextUnmarshaler), []string, a struct of
// settings, or a YAMLReader.
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

// structAt returns the struct that a pointer points at.
func structAt(pointer any) reflect.Value { return reflect.ValueOf(pointer).Elem() }

// fieldsOf returns the fields of a struct that have a name in the file, in their order. The fields of an embedded struct
// with the tag yaml:",inline" are among them.
func fieldsOf(v reflect.Value) (all []field) {
	for i := range v.NumField() {
		in := v.Type().Field(i)
		switch name, ok := in.Tag.Lookup("yaml"); {
		case name == ",inline":
			for _, f := range fieldsOf(v.Field(i)) {
				if outer := in.Tag.Get("sets"); outer != "" && f.sets != "" {
					f.sets = outer + "." + f.sets
				}
				all = append(all, f)
			}
		case ok:
			all = append(all, field{
				name: name, form: in.Tag.Get("form"), fallback: in.Tag.Get("default"), sets: in.Tag.Get("sets"),
				restart: in.Tag.Get("restart"), in: v.Type().Name() + "." + in.Name, Value: v.Field(i),
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
	panic("settings: no field " + path)
}

// setting returns the field as a setting; nil if it is a struct of settings.
func (f field) setting() setting {
	s, _ := f.Addr().Interface().(setting)
	return s
}

// content returns the value of the field: that of its Setting, or the field itself.
func (f field) content() reflect.Value {
	if s := f.setting(); s != nil {
		return s.value()
	}
	return f.Value
}
