package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/yamlfile"
)

// reader walks the file's nodes and collects what is wrong.
type reader struct{ faults []Fault }

// field reads the value of one field.
type field func(r *reader, value ast.Node)

// maxFile bounds the file: larger ones are something else.
const maxFile = 1 << 20

// parse returns the file's one document; nil if it is empty.
func parse(source []byte) (root ast.Node, fault *Fault) {
	if len(source) > maxFile {
		return nil, &Fault{Message: fmt.Sprintf("the file has %d bytes; a configuration has at most %d", len(source), maxFile)}
	}
	defer func() {
		if recover() != nil { // the YAML library gave up on something that is no YAML
			root, fault = nil, &Fault{Message: "the file is not YAML"}
		}
	}()
	file, err := parser.ParseBytes(source, 0)
	if err != nil {
		return nil, syntaxFault(err)
	}
	if len(file.Docs) > 1 && file.Docs[1].Body != nil {
		return nil, &Fault{At: position(file.Docs[1].Body), Message: "a second document begins here; a configuration is one"}
	}
	if len(file.Docs) == 0 {
		return nil, nil
	}
	return file.Docs[0].Body, nil
}

func syntaxFault(err error) *Fault {
	var located yaml.Error
	if !errors.As(err, &located) {
		return &Fault{Message: err.Error()}
	}
	f := &Fault{At: tokenPosition(located.GetToken()), Message: strings.TrimSpace(located.GetMessage())}
	if strings.Contains(f.Message, "\t") || strings.Contains(f.Message, "tab ") || strings.Contains(f.Message, `\t`) {
		f.Instead = "YAML is indented by spaces, not by tabs"
	}
	return f
}

func position(n ast.Node) Position {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return position(m.Values[0].Key)
	}
	return tokenPosition(n.GetToken())
}

func tokenPosition(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{Line: t.Position.Line, Column: t.Position.Column}
}

func (r *reader) fault(n ast.Node, message, instead string) {
	r.faults = append(r.faults, Fault{At: position(n), Message: message, Instead: instead})
}

// wrong notes an error of a parse function.
func (r *reader) wrong(n ast.Node, err error) {
	var w *wrong
	if errors.As(err, &w) {
		r.fault(n, w.message, w.instead)
		return
	}
	r.fault(n, err.Error(), "")
}

// entries returns the pairs of a mapping; what says what the mapping is, for the fault that it is none.
func (r *reader) entries(n ast.Node, what string) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	r.fault(n, what+" must be a mapping of names to values", "")
	return nil
}

// mapping reads a mapping whose names are all known.
func (r *reader) mapping(n ast.Node, what string, known map[string]field) {
	for _, entry := range r.entries(n, what) {
		name, ok := r.text(entry.Key)
		if !ok {
			continue
		}
		read, ok := known[name]
		switch {
		case !ok:
			r.fault(entry.Key, fmt.Sprintf("%s has no field %q", what, name), suggestion(name, known))
		case isNull(entry.Value):
			r.fault(entry.Key, fmt.Sprintf("%q has no value", name), "give it one, or leave the line out")
		default:
			read(r, entry.Value)
		}
	}
}

// text returns the text of a scalar.
func (r *reader) text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		r.fault(n, "anchors and aliases are not supported", "what routes have in common goes to defaults:")
	default:
		r.fault(n, "a single value is needed here", "")
	}
	return "", false
}

func isNull(n ast.Node) bool {
	_, null := n.(*ast.NullNode)
	return n == nil || null
}

// suggestion names the known field that is most like the unknown one, or all of them.
func suggestion(name string, known map[string]field) string {
	names := make([]string, 0, len(known))
	for k := range known {
		names = append(names, k)
	}
	slices.Sort(names)
	if near := yamlfile.Nearest(name, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known: " + strings.Join(names, ", ")
}
