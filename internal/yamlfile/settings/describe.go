package settings

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Entry describes a field to users.
type Entry struct {
	Name    string  // in the file
	Text    string  // Markdown: the comment of the field without the field's name
	Default string  // the value where nothing is set; empty: none, or Text has it after "Default:"
	Inner   []Entry // of a mapping

	of field
}

// Describe returns the fields of a struct in their order, with what the comments in Sources say of them. A comment
// begins with the name of its field and a colon, "is" or "are"; any other has no Text. The defaults are those of the
// tags, or else the values that the struct has: call FillIn before. settings is a pointer.
func (k Kind) Describe(settings any) []Entry {
	return describe(structAt(settings), comments(k.Sources))
}

func describe(v reflect.Value, texts map[string]string) (all []Entry) {
	for _, f := range fieldsOf(v) {
		e := Entry{Name: f.name, Text: texts[f.in], of: f}
		if e.Text != "" {
			e.Text += ofRestart[f.restart]
		}
		s, value := f.setting(), f.content()
		if s == nil && value.Kind() == reflect.Pointer {
			value = reflect.New(value.Type().Elem()).Elem()
		}
		switch {
		case value.Kind() == reflect.Struct && (s == nil || isMapping(value)):
			e.Inner = describe(value, texts)
		case s != nil && !strings.Contains(e.Text, "Default:"):
			if e.Default = f.fallback; e.Default == "" && (!value.IsZero() || value.Kind() == reflect.Bool) {
				e.Default = brief(value)
			}
		}
		all = append(all, e)
	}
	return all
}

// ofRestart is what the page says of settings that a running program cannot change.
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
func comments(sources []fs.FS) map[string]string {
	texts := map[string]string{}
	for _, source := range sources {
		names, err := fs.Glob(source, "*.go")
		if err != nil {
			panic(err)
		}
		for _, name := range names {
			addComments(texts, source, name)
		}
	}
	return texts
}

// addComments adds the comments of a file.
func addComments(texts map[string]string, source fs.FS, name string) {
	text, err := fs.ReadFile(source, name)
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

// Help returns a sentence about the entry that has the given name in the file, such as tls.cert, and its default. It
// panics if there is no such entry.
func Help(entries []Entry, name string) string {
	first, rest, nested := strings.Cut(name, ".")
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == first })
	switch {
	case i < 0:
		panic("settings: no entry " + name)
	case nested:
		return Help(entries[i].Inner, rest)
	}
	e := entries[i]
	text := strings.TrimSpace(firstSentence.FindString(e.Text))
	switch given := defaultInText.FindString(e.Text); {
	case given != "":
		text += " " + given
	case e.Default != "" && e.Default != "false":
		text += " Default " + e.Default + "."
	}
	text = plain(text)
	return strings.ToUpper(text[:1]) + text[1:]
}

// plain returns Markdown in one line without its marks.
func plain(text string) string {
	text = markdownLink.ReplaceAllString(text, "$1")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " ")
}
