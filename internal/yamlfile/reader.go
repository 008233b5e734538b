package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Reader walks a file's nodes and collects what is wrong.
type Reader struct {
	faults  []Fault
	hidden  bool
	repeats string // how to write what repeats
}

// Field reads the value of one field.
type Field func(r *Reader, value ast.Node)

// maxFile bounds a file: larger ones are something else.
const maxFile = 1 << 20

// Read reads a file that is a mapping. The error is a *Faults with everything that is wrong. Afterwards, if it is not
// nil, finish looks for what is missing or makes no sense together.
func Read(name string, source []byte, what string, known map[string]Field, finish func(r *Reader)) error {
	source = bytes.TrimPrefix(source, []byte("\uFEFF")) // the byte order mark of some editors
	root, fault := parse(source)
	if fault != nil {
		return &Faults{File: name, Source: source, All: []Fault{*fault}}
	}
	r := &Reader{repeats: "write it out"}
	if root != nil && !isNull(root) {
		r.Mapping(root, what, known)
	}
	if isMapping(root) && finish != nil {
		finish(r)
	}
	if len(r.faults) > 0 {
		return &Faults{File: name, Source: source, All: inOrder(r.faults)}
	}
	return nil
}

// maxNesting bounds lists and mappings inside of each other. The time of the YAML library grows with the square of their
// number: it took seconds for 40 KB of brackets.
const maxNesting = 200

// tooDeep returns the token at which a source has more than maxNesting lists and mappings inside of each other, those by
// indentation aside, of which a file cannot have so many.
func tooDeep(source []byte) *token.Token {
	depth, line, inLine := 0, 0, 0
	for _, t := range lexer.Tokenize(string(source)) {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth = max(depth-1, 0)
		case token.SequenceEntryType, token.MappingKeyType: // several in a line are inside of each other
			if t.Position.Line != line {
				line, inLine = t.Position.Line, 0
			}
			inLine++
		}
		if depth+inLine > maxNesting {
			return t
		}
	}
	return nil
}

// IsTooDeep reports whether a source, of a file that [Read] does not read, would keep the YAML library busy for long.
func IsTooDeep(source []byte) (deep bool) {
	defer func() { deep = deep || recover() != nil }() // the lexer gave up on something that is no YAML
	return tooDeep(source) != nil
}

// parse returns the file's one document; nil if it is empty.
func parse(source []byte) (root ast.Node, fault *Fault) {
	if len(source) > maxFile {
		return nil, &Fault{Message: fmt.Sprintf("the file has %d bytes; it may have at most %d", len(source), maxFile)}
	}
	defer func() {
		if recover() != nil { // the YAML library gave up on something that is no YAML
			root, fault = nil, &Fault{Message: "the file is not YAML"}
		}
	}()
	if deep := tooDeep(source); deep != nil {
		return nil, &Fault{
			At: tokenPosition(deep), Message: fmt.Sprintf("more than %d lists and mappings are inside of each other here", maxNesting),
		}
	}
	file, err := parser.ParseBytes(source, 0)
	if err != nil {
		return nil, syntaxFault(err)
	}
	const second = "a second document begins here; keep one"
	if len(file.Docs) > 1 && file.Docs[1].Body != nil {
		return nil, &Fault{At: Place(file.Docs[1].Body), Message: second}
	}
	if empty := emptyDocument(source); empty != nil {
		return nil, &Fault{At: tokenPosition(empty), Message: second}
	}
	if len(file.Docs) == 0 {
		return nil, nil
	}
	return file.Docs[0].Body, nil
}

// emptyDocument returns the line --- after which the YAML library drops the rest of a source, since only comments are
// between it and the line --- before; nil if there is none.
func emptyDocument(source []byte) *token.Token {
	var last token.Type
	for _, t := range lexer.Tokenize(string(source)) {
		switch {
		case t.Type == token.CommentType:
			continue
		case t.Type == token.DocumentHeaderType && last == t.Type:
			return t
		}
		last = t.Type
	}
	return nil
}

// syntaxFault returns the fault for a file that is not YAML, with its place if the parser says where it is.
func syntaxFault(err error) *Fault {
	var located yaml.Error
	if !errors.As(err, &located) {
		return &Fault{Message: err.Error()}
	}
	f := &Fault{At: tokenPosition(located.GetToken()), Message: strings.TrimSpace(located.GetMessage())}
	if strings.Contains(f.Message, "\t") || strings.Contains(f.Message, "tab ") || strings.Contains(f.Message, `\t`) {
		f.Instead = "YAML is indented with spaces, not with tabs"
	}
	return f
}

// Place returns where a node begins.
func Place(n ast.Node) Position {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return Place(m.Values[0].Key)
	}
	return tokenPosition(n.GetToken())
}

// tokenPosition returns where a token begins, or no position if the parser did not say.
func tokenPosition(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{Line: t.Position.Line, Column: t.Position.Column}
}

// Fault notes what is wrong with a node, and what to write instead.
func (r *Reader) Fault(n ast.Node, message, instead string) { r.FaultAt(Place(n), message, instead) }

// FaultAt notes what is wrong at a place, and what to write instead. The same fault is noted once.
func (r *Reader) FaultAt(p Position, message, instead string) {
	f := Fault{At: p, Message: message, Instead: instead, Hidden: r.hidden}
	if !slices.Contains(r.faults, f) {
		r.faults = append(r.faults, f)
	}
}

// Missing notes what the file as a whole lacks, and what to write.
func (r *Reader) Missing(message, instead string) { r.FaultAt(Position{}, message, instead) }

// Secretly reads a value that may hold secrets: its faults do not show the line.
func Secretly(read Field) Field {
	return func(r *Reader, n ast.Node) {
		before := r.hidden
		r.hidden = true
		read(r, n)
		r.hidden = before
	}
}

// InsteadOfAliases reads a value in which aliases are tempting: their faults say how to write what repeats.
func InsteadOfAliases(instead string, read Field) Field {
	return func(r *Reader, n ast.Node) {
		before := r.repeats
		r.repeats = instead
		read(r, n)
		r.repeats = before
	}
}

// Wrong notes an error of a parse function.
func (r *Reader) Wrong(n ast.Node, err error) {
	var w *problem
	if errors.As(err, &w) {
		r.Fault(n, w.message, w.instead)
		return
	}
	r.Fault(n, err.Error(), "")
}

// Entries returns the pairs of a mapping; what says what the mapping is, for the fault that it is none.
func (r *Reader) Entries(n ast.Node, what string) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	r.Fault(n, what+mustBeMapping, "")
	return nil
}

const mustBeMapping = " must be a mapping of names to values"

// fieldsFor says what to write where a value stands in place of a mapping.
func fieldsFor(value string, known map[string]Field) string {
	if known[value] != nil {
		return fmt.Sprintf("write {%s: …}", value)
	}
	return "write {NAME: VALUE} with some of: " + strings.Join(namesOf(known), ", ")
}

// namesOf returns the names of the known fields in order.
func namesOf(known map[string]Field) []string { return slices.Sorted(maps.Keys(known)) }

// Mapping reads a mapping whose names are all known.
func (r *Reader) Mapping(n ast.Node, what string, known map[string]Field) {
	if scalar, alone := n.(ast.ScalarNode); alone {
		r.Fault(n, what+mustBeMapping, fieldsFor(scalar.GetToken().Value, known))
		return
	}
	for _, entry := range r.Entries(n, what) {
		name, ok := r.Text(entry.Key)
		if !ok {
			continue
		}
		read, ok := known[name]
		switch {
		case !ok:
			r.Fault(entry.Key, fmt.Sprintf("%s has no field %q", what, name), suggestion(name, known))
		case isNull(entry.Value):
			r.Fault(entry.Key, fmt.Sprintf("%q has no value", name), "write a value, or leave the line out")
		default:
			read(r, entry.Value)
		}
	}
}

// Text returns the text of a scalar.
func (r *Reader) Text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		r.Fault(n, "anchors and aliases are not supported", r.repeats)
	default:
		r.Fault(n, "this must be a single value", "")
	}
	return "", false
}

// isMapping reports a mapping, or nothing, which is an empty one.
func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return isNull(n)
}

// isNull reports whether a field has no value.
func isNull(n ast.Node) bool {
	_, null := n.(*ast.NullNode)
	return n == nil || null
}

// suggestion names the known field that is most like the unknown one, or all of them.
func suggestion(name string, known map[string]Field) string {
	names := namesOf(known)
	if near := Nearest(name, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known: " + strings.Join(names, ", ")
}

// Found returns how many faults were found so far.
func (r *Reader) Found() int { return len(r.faults) }
