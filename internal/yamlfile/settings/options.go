package settings

import (
	"cmp"
	"reflect"
	"strings"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Inherit copies each setting of a struct that is not set from another struct of the same type, and so each pointer and
// each YAMLReader that is not there. Both are pointers.
func Inherit(to, from any) { inherit(structAt(to), structAt(from)) }

func inherit(to, from reflect.Value) {
	for i, f := range fieldsOf(to) {
		other := fieldsOf(from)[i]
		switch s := f.setting(); {
		case s == nil && f.Kind() == reflect.Struct:
			inherit(f.Value, other.Value)
		case s == nil && f.IsZero(), s != nil && !s.isSet():
			f.Set(other.Value)
		}
	}
}

// Change is a setting that differs from the running program's, although it cannot change while the program runs.
type Change struct {
	Name string            // in the file: limits.memory
	At   yamlfile.Position // the zero Position if the file leaves it out
}

// Changes returns the settings in which a struct differs from that of the running program, and that need a restart for
// it: those with the tag restart, or in a struct with that tag. Both are pointers to structs of one type. FillIn comes
// before, for both.
func Changes(next, running any) []Change { return changes(structAt(next), structAt(running), "", "") }

func changes(next, running reflect.Value, prefix, restart string) (all []Change) {
	for i, f := range fieldsOf(next) {
		other := fieldsOf(running)[i]
		s := f.setting()
		if s == nil {
			if f.Kind() == reflect.Struct {
				all = append(all, changes(f.Value, other.Value, prefix+f.name+".", f.restart)...)
			}
			continue
		}
		differs := false
		switch cmp.Or(f.restart, restart) {
		case "change":
			differs = !reflect.DeepEqual(s.value().Interface(), other.setting().value().Interface())
		case "presence":
			differs = s.isSet() != other.setting().isSet()
		}
		if differs {
			all = append(all, Change{Name: prefix + f.name, At: s.at()})
		}
	}
	return all
}

// withOptions calls do with each setting of a struct that sets an option of the program, and with that option.
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
			panic("settings: no option " + f.sets)
		}
		if s := f.setting(); s != nil {
			do(s, option)
		} else {
			withOptions(f.Value, option, do)
		}
	}
}

// Apply sets a program's options, which the tags name, to the settings of a struct that are set or have a default. Both
// are pointers. It panics if there is no such option.
func Apply(settings, options any) {
	withOptions(structAt(settings), structAt(options), func(s setting, option reflect.Value) {
		if s.isSet() || !s.value().IsZero() {
			option.Set(s.value().Convert(option.Type()))
		}
	})
}

// Adopt is the reverse of Apply: it gives the settings of a struct the values of the program's options. A setting whose
// option has no value stays as it is.
func Adopt(settings, options any) {
	withOptions(structAt(settings), structAt(options), func(s setting, option reflect.Value) {
		if !option.IsZero() {
			s.value().Set(option.Convert(s.value().Type()))
		}
	})
}

// Options returns the paths of the options that the settings of a struct set, for a test that each option has a
// setting. settings is a pointer.
func Options(settings any) []string { return options(structAt(settings), "") }

func options(v reflect.Value, prefix string) (paths []string) {
	for _, f := range fieldsOf(v) {
		switch {
		case f.sets == "":
		case f.setting() != nil:
			paths = append(paths, prefix+f.sets)
		default:
			paths = append(paths, options(f.Value, prefix+f.sets+".")...)
		}
	}
	return paths
}
