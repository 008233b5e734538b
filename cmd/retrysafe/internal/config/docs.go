package config

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// source has the comments of the settings.
//
//go:embed config.go route.go
var source embed.FS

// entry describes a field to users.
type entry struct {
	field
	text     string // Markdown: the comment of the field without the field's name
	standard string // the value where nothing is set; empty: none, or the text has it after "Default:"
	inner    []entry
}

// describe returns the fields of a file in their order.
func describe() []entry {
	c := &Config{}
	if err := c.FillIn(); err != nil {
		panic(err) // nothing is set, so nothing contradicts
	}
	c.Defaults = c.Defaults.inForce()
	return describeFields(reflect.ValueOf(c).Elem(), comments())
}

func describeFields(v reflect.Value, texts map[string]string) (all []entry) {
	for _, f := range fieldsOf(v) {
		e, value := entry{field: f, text: texts[f.in] + ofRestart[f.restart]}, f.Value
		s := f.setting()
		switch {
		case s != nil:
			value = s.value()
		case value.Kind() == reflect.Pointer:
			value = reflect.New(value.Type().Elem()).Elem()
		}
		switch {
		case value.Kind() == reflect.Struct && (s == nil || isMapping(value)):
			e.inner = describeFields(value, texts)
		case s != nil && !strings.Contains(e.text, "Default:"):
			if e.standard = f.fallback; e.standard == "" && (!value.IsZero() || value.Kind() == reflect.Bool) {
				e.standard = brief(value)
			}
		}
		all = append(all, e)
	}
	return all
}

// ofRestart is what the page says of settings that a running proxy cannot change.
var ofRestart = map[string]string{
	"change":   "\n\nA change takes a restart.",
	"presence": "\n\nTo add or remove it takes a restart.",
}

// brief returns a value as people write it.
func brief(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case time.Duration:
		text := v.String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return text
	case int64:
		for _, unit := range sizeUnits {
			if unit.bytes > 1 && v%unit.bytes == 0 && v/unit.bytes < 1<<10 {
				return strconv.FormatInt(v/unit.bytes, 10) + unit.suffix
			}
		}
	}
	return strings.Trim(showValue(v, ""), " '")
}

// comments returns the comments of the settings, without the name they begin with and what follows it, by the names of
// the settings in the program: Route.Lease.
func comments() map[string]string {
	texts := map[string]string{}
	for _, name := range []string{"config.go", "route.go"} {
		text, err := source.ReadFile(name)
		if err != nil {
			panic(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return false
			}
			for _, f := range fields.Fields.List {
				for _, name := range f.Names {
					if f.Tag != nil {
						texts[spec.Name.Name+"."+name.Name] = withoutName(f.Doc.Text(), name.Name)
					}
				}
			}
			return false
		})
	}
	return texts
}

// withoutName returns a comment without the name that it begins with; nothing if it begins in another way.
func withoutName(text, name string) string {
	for _, after := range []string{": ", " is ", " are "} {
		if rest, ok := strings.CutPrefix(text, name+after); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

var (
	firstSentence = regexp.MustCompile(`(?s)^.*?\.(\s|$)`)
	defaultInText = regexp.MustCompile(`Default: [^.]*\.`)
	markdownLink  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Help returns a sentence about the setting that has the given name in the file, such as tls.cert, and its default.
func Help(name string) string {
	var e entry
	inner := describe()
	for part := range strings.SplitSeq(name, ".") {
		e = entry{}
		for _, candidate := range inner {
			if candidate.name == part {
				e = candidate
			}
		}
		inner = e.inner
	}
	text := strings.TrimSpace(firstSentence.FindString(e.text))
	switch given := defaultInText.FindString(e.text); {
	case given != "":
		text += " " + given
	case e.standard != "" && e.standard != "false":
		text += " Default " + e.standard + "."
	}
	text = plain(text)
	return strings.ToUpper(text[:1]) + text[1:]
}

// plain returns Markdown in one line without its marks.
func plain(text string) string {
	text = markdownLink.ReplaceAllString(text, "$1")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " ")
}
