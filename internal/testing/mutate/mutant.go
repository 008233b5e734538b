package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one small change of one file.
type mutant struct {
	file       string // its absolute path
	function   string // the function around the change
	line       int
	start, end int    // the replaced bytes
	text       string // the replacement
	source     []byte // the whole original file
}

// mutated returns the changed file.
func (m mutant) mutated() []byte {
	return slices.Concat(m.source[:m.start], []byte(m.text), m.source[m.end:])
}

// before and after return the lines that the change touches, joined into one line each.
func (m mutant) before() string { return oneLine(m.source[m.lineStart():m.lineEnd()]) }

func (m mutant) after() string {
	return oneLine(slices.Concat(m.source[m.lineStart():m.start], []byte(m.text), m.source[m.end:m.lineEnd()]))
}

func (m mutant) lineStart() int { return bytes.LastIndexByte(m.source[:m.start], '\n') + 1 }

func (m mutant) lineEnd() int {
	if i := bytes.IndexByte(m.source[m.end:], '\n'); i >= 0 {
		return m.end + i
	}
	return len(m.source)
}

func oneLine(text []byte) string { return strings.Join(strings.Fields(string(text)), " ") }

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d %s\n\t- %s\n\t+ %s",
		filepath.Base(m.file), m.line, m.function, m.before(), m.after())
}

// mutantsOf returns the mutants of the Go files in a folder, without tests and without mutants that do not compile.
func mutantsOf(folder string) ([]mutant, error) {
	sources, err := sourcesIn(folder)
	if err != nil {
		return nil, err
	}
	c, err := newChecker(folder, sources)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, path := range slices.Sorted(maps.Keys(sources)) {
		some, err := mutantsIn(path, sources[path])
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(some, func(m mutant) bool { return !c.compiles(m) })...)
	}
	return all, nil
}

// sourcesIn returns the Go files in a folder, without tests, by their absolute path.
func sourcesIn(folder string) (map[string][]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	sources := map[string][]byte{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		path, err := filepath.Abs(f)
		if err != nil {
			return nil, err
		}
		if sources[path], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("no Go files in %s; run this from the top of the repository", folder)
	}
	return sources, nil
}

// mutantsIn returns the mutants of one file, in the order of the source.
func mutantsIn(path string, source []byte) ([]mutant, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []mutant
	for _, decl := range parsed.Decls {
		function := "package"
		if f, ok := decl.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		p := &pass{source: source, offset: func(p token.Pos) int { return fset.Position(p).Offset }}
		ast.Inspect(decl, p.visit)
		for _, c := range p.changes {
			found = append(found, mutant{
				file: path, function: function, line: 1 + bytes.Count(source[:c.start], []byte("\n")),
				start: c.start, end: c.end, text: c.text, source: source,
			})
		}
	}
	return found, nil
}
