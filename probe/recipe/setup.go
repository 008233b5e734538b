package recipe

import (
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/probe"
)

const (
	setupAdvice = "write a list, as in: - {path: /sessions, save: {session: /id}}"
	saveAdvice  = "write a JSON pointer such as /id, header:Location, or status"
)

// readSetup returns the field setup, a list of requests that are sent before the others.
func readSetup(to *[]probe.Step, env environment, what string) yamlfile.Field {
	return func(r *yamlfile.Reader, n ast.Node) {
		list, ok := n.(*ast.SequenceNode)
		if !ok || len(list.Values) == 0 {
			r.Fault(n, what+" must be a list with at least one request", setupAdvice)
			return
		}
		for i, item := range list.Values {
			*to = append(*to, readStep(r, item, env, fmt.Sprintf("%s[%d]", what, i)))
		}
	}
}

// readStep reads one request of a set-up.
func readStep(r *yamlfile.Reader, n ast.Node, env environment, what string) (step probe.Step) {
	q := request{at: n}
	before := r.Found()
	known := q.fields(env, what)
	known["name"] = yamlfile.Scalar(&step.Name, yamlfile.Filled)
	known["key"] = yamlfile.Scalar(&step.Keyed, yamlfile.Bool)
	known["shared"] = yamlfile.Scalar(&step.Shared, yamlfile.Bool)
	known["save"] = func(r *yamlfile.Reader, n ast.Node) { step.Save = readSave(r, n, what+".save") }
	r.Mapping(n, what, known)
	if q.path == "" && r.Found() == before {
		r.Fault(n, what+".path is missing", "write path: /sessions")
	}
	q.checkBody(r, what)
	step.Template = q.template()
	if step.Name == "" {
		step.Name = step.Method + " " + step.Path
	}
	return step
}

// readSave reads which values of an answer are saved, and under which names.
func readSave(r *yamlfile.Reader, n ast.Node, what string) (all []probe.Saved) {
	for _, entry := range r.Entries(n, what) {
		var s probe.Saved
		yamlfile.Scalar(&s.Name, savedName)(r, entry.Key)
		yamlfile.Scalar(&s, func(text string) (probe.Saved, error) { return savedFrom(s.Name, text) })(r, entry.Value)
		all = append(all, s)
	}
	return all
}

// savedFrom reads where in an answer a value is.
func savedFrom(name, text string) (probe.Saved, error) {
	header, isHeader := strings.CutPrefix(text, "header:")
	switch {
	case text == "status":
		return probe.Saved{Name: name}, nil
	case isHeader && header != "" && textproto.TrimString(header) == header && strings.Trim(header, tokens) == "":
		return probe.Saved{Name: name, Header: header}, nil
	case strings.HasPrefix(text, "/"):
		return probe.Saved{Name: name, Pointer: text}, nil
	}
	return probe.Saved{}, yamlfile.Wrong(fmt.Sprintf("%q is no place in an answer", text), saveAdvice)
}

var savedNames = regexp.MustCompile(`^[a-z_]+$`)

// savedName accepts a name that can stand in a template.
func savedName(s string) (string, error) {
	switch {
	case slices.Contains(probe.Generators(), s):
		return "", yamlfile.Wrong("{{"+s+"}} is a generator", "choose another name")
	case !savedNames.MatchString(s):
		return "", yamlfile.Wrong(fmt.Sprintf("%q cannot be the name of a saved value", s),
			"write lower-case letters and _, as in session_id")
	}
	return s, nil
}

// namesSavedIn returns the names that the set-ups of a file save: its templates may have them wherever they stand in
// the file. What is wrong with a set-up shows when it is read for good.
func namesSavedIn(source []byte) (names []string) {
	note := func(r *yamlfile.Reader, n ast.Node) {
		list, _ := n.(*ast.SequenceNode)
		if list == nil {
			return
		}
		for _, item := range list.Values {
			for _, field := range mappingOf(item) {
				if text, ok := field.Key.(*ast.StringNode); !ok || text.Value != "save" {
					continue
				}
				for _, entry := range r.Entries(field.Value, "save") {
					var name string
					yamlfile.Scalar(&name, savedName)(r, entry.Key)
					names = append(names, name)
				}
			}
		}
	}
	_ = yamlfile.Read("", source, "a recipe", map[string]yamlfile.Field{
		"setup": note,
		"routes": func(r *yamlfile.Reader, n ast.Node) {
			list, _ := n.(*ast.SequenceNode)
			if list == nil {
				return
			}
			for _, item := range list.Values {
				for _, field := range mappingOf(item) {
					if text, ok := field.Key.(*ast.StringNode); ok && text.Value == "setup" {
						note(r, field.Value)
					}
				}
			}
		},
	}, nil)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// checkPlaceholders notes a fault for a saved value that is not saved before the request. at is where the request is.
func checkPlaceholders(r *yamlfile.Reader, at ast.Node, t probe.Template) {
	if at == nil || r.Found() > 0 {
		return
	}
	if err := t.Check(); err != nil {
		r.Fault(at, err.Error(), "save it in a step of setup that comes before")
	}
}
