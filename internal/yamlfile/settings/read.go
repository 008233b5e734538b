package settings

import (
	"encoding"
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Kind is a kind of files: what is the same for all of them. Its methods take pointers to structs of settings.
type Kind struct {
	// Forms are added to the general ones, or take their place, by name.
	Forms map[string]Form
	// Sources have the Go files in which the structs are declared. Only Describe needs them.
	Sources []fs.FS
}

// Readers returns what reads the fields of a struct, for yamlfile.Read.
func (k Kind) Readers(to any) map[string]yamlfile.Field { return k.readers(structAt(to)) }

func (k Kind) readers(v reflect.Value) map[string]yamlfile.Field {
	all := map[string]yamlfile.Field{}
	for _, f := range fieldsOf(v) {
		all[f.name] = func(r *yamlfile.Reader, n ast.Node) { k.read(f, r, n) }
	}
	return all
}

// ReadMapping reads a mapping into a struct, for types that read themselves. what names the mapping in errors.
func (k Kind) ReadMapping(r *yamlfile.Reader, n ast.Node, what string, to any) {
	k.readMapping(r, n, what, "", reflect.ValueOf(to))
}

// Set sets the setting that has a name in the file, or a path of names as in tls.cert, to what a text says. It is for
// flags. It panics if there is no such setting.
func (k Kind) Set(to any, path, text string) error { return k.parse(find(structAt(to), path), text) }

// FillIn gives each setting that is not set its default, also those of structs behind pointers and in Settings if these
// are there. Afterwards they are not set either. It fails if a tag has a text that the setting's Form refuses.
func (k Kind) FillIn(to any) error { return k.fillIn(structAt(to)) }

func (k Kind) fillIn(v reflect.Value) error {
	for _, f := range fieldsOf(v) {
		s, inner := f.setting(), f.content()
		if s == nil && inner.Kind() == reflect.Pointer && !inner.IsNil() {
			inner = inner.Elem()
		}
		switch {
		case isMapping(inner) && (s == nil || s.isSet()):
			if err := k.fillIn(inner); err != nil {
				return err
			}
		case s == nil || s.isSet() || f.fallback == "":
		default:
			v, err := k.parseValue(f, f.fallback)
			if err != nil {
				return fmt.Errorf("the default of %s: %w", f.name, err)
			}
			s.value().Set(reflect.ValueOf(v))
		}
	}
	return nil
}

// parseValue reads the text of the field's value, or of an item if the value is a list.
func (k Kind) parseValue(f field, text string) (any, error) {
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
	known, ok := k.form(f, v.Elem().Type())
	if !ok {
		panic("settings: no form for " + f.in)
	}
	return known.Parse(text)
}

// parse sets the field to what a text says.
func (k Kind) parse(f field, text string) error {
	v, err := k.parseValue(f, text)
	if err != nil {
		return err
	}
	f.setting().value().Set(reflect.ValueOf(v))
	f.setting().place(yamlfile.Position{})
	return nil
}

// read reads the field from a file.
func (k Kind) read(f field, r *yamlfile.Reader, n ast.Node) {
	s := f.setting()
	switch v := f.content(); {
	case readsItself(v):
		if s != nil {
			s.place(yamlfile.Place(n))
		}
		v.Addr().Interface().(YAMLReader).ReadYAML(r, n)
	case s == nil:
		k.readMapping(r, n, f.name, f.form, f.Addr())
	case v.Kind() == reflect.Slice:
		s.place(yamlfile.Place(n))
		yamlfile.List(v.Addr().Interface().(*[]string), func(text string) (string, error) {
			item, err := k.parseValue(f, text)
			if err != nil {
				return "", err
			}
			return item.(string), nil
		})(r, n)
	case isMapping(v):
		s.place(yamlfile.Place(n))
		k.readMapping(r, n, f.name, f.form, v.Addr())
	default:
		if text, ok := r.Text(n); !ok {
			return
		} else if err := k.parse(f, text); err != nil {
			r.Wrong(n, err)
			return
		}
		s.place(yamlfile.Place(n))
	}
}

func readsItself(v reflect.Value) bool {
	_, ok := v.Addr().Interface().(YAMLReader)
	return ok
}

// isMapping reports whether a value is written as a mapping.
func isMapping(v reflect.Value) bool {
	_, text := v.Addr().Interface().(encoding.TextUnmarshaler)
	return v.Kind() == reflect.Struct && !text
}

// readMapping reads a mapping into the struct that to points at.
func (k Kind) readMapping(r *yamlfile.Reader, n ast.Node, what, form string, to reflect.Value) {
	if to.Elem().Kind() == reflect.Pointer {
		to.Elem().Set(reflect.New(to.Elem().Type().Elem()))
		to = to.Elem()
	}
	if short, ok := to.Interface().(ScalarReader); ok {
		if scalar, alone := n.(ast.ScalarNode); alone {
			short.ReadScalar(r, scalar, form)
			return
		}
	}
	r.Mapping(n, what, k.readers(to.Elem()))
	if checked, ok := to.Interface().(MappingChecker); ok {
		checked.CheckMapping(r, n)
	}
}
