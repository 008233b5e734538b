package guides

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/pages"
)

// Each Go block on a page compiles: a whole file unchanged, and a part of a file with the declarations of
// testdata/around: "imports.go" and "common.go" for all pages, and a file with the page's name. Declarations of a block
// replace those of testdata, and declarations of a page's file replace those of "common.go". Unused variables and
// imports are allowed.
//
// Seen to fail with a method, a field of Options and an import misspelled on pages, with an argument left out, and
// with a file of testdata/around taken away.
func TestSnippetsCompile(t *testing.T) {
	paths, err := pages.All("../..")
	if err != nil {
		t.Fatal(err)
	}
	var all []*snippet
	for _, path := range paths {
		blocks, err := pages.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if b.Lang == "go" {
				all = append(all, newSnippet(t, b, blocks))
			}
		}
	}
	if len(all) < 30 {
		t.Errorf("%d snippets found, want all of them", len(all))
	}
	packages := compiled(t, all)
	for _, s := range all {
		if err := s.check(packages); err != nil {
			t.Errorf("%s: %v", s.block.At(), err)
		}
	}
}

// snippet is a block with the files that are compiled with it.
type snippet struct {
	block   pages.Block
	sources []string // one of them must compile: a part of a function may or may not return an error
	files   []string // other files of the same program
}

var packageClause = regexp.MustCompile(`(?m)^package \w+$`)

func newSnippet(t *testing.T, b pages.Block, page []pages.Block) *snippet {
	t.Helper()
	if packageClause.MatchString(b.Text) {
		s := &snippet{block: b, sources: []string{b.Text}}
		for _, other := range page {
			if b.File != "" && other.Lang == "go" && other.File != "" && other.Run == b.Run && other.File != b.File {
				s.files = append(s.files, other.Text)
			}
		}
		return s
	}
	outside, inside := divide(b.Text)
	imports, common, own := around(t, "imports"), around(t, "common"),
		around(t, strings.TrimSuffix(filepath.Base(b.Page), ".md"))
	s := &snippet{block: b}
	for _, result := range []string{"error", ""} {
		body := fmt.Sprintf("%s\nfunc _() %s {\n%s\npanic(0)\n}\n", outside, result, inside)
		s.sources = append(s.sources, "package p\n"+imports+without(t, common, own+body)+without(t, own, body)+body)
	}
	return s
}

// around reads a file of testdata/around, without its package clause; it returns "" if there is none for the page.
func around(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "around", name+".go"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("package around\n"))
	return string(text)
}

// divide splits a block into declarations that cannot be inside a function, and the rest.
func divide(text string) (outside, inside string) {
	var to *string
	for line := range strings.Lines(text) {
		if to == nil && (strings.HasPrefix(line, "func ") || strings.HasPrefix(line, "type ") ||
			strings.HasPrefix(line, "const ")) {
			to = &outside
		}
		if to == nil {
			inside += line
			continue
		}
		*to += line
		if line[0] == '}' || line[0] == ')' || !strings.HasSuffix(strings.TrimSpace(line), "{") &&
			strings.TrimLeft(line, "\t ") == line {
			to = nil
		}
	}
	return outside, inside
}

// without removes declarations whose names also occur in others.
func without(t *testing.T, text, others string) string {
	t.Helper()
	const clause = "package p\n"
	fset := token.NewFileSet()
	theirs, err := parser.ParseFile(fset, "", clause+others, parser.SkipObjectResolution)
	if err != nil {
		return text // check reports the error
	}
	var names []string
	for _, d := range theirs.Decls {
		names = append(names, declared(d)...)
	}
	ours, err := parser.ParseFile(fset, "", clause+text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	text = clause + text
	for _, d := range slices.Backward(ours.Decls) {
		if slices.ContainsFunc(declared(d), func(name string) bool {
			of, _, _ := strings.Cut(name, ".")
			return slices.Contains(names, name) || slices.Contains(names, of)
		}) {
			text = text[:fset.Position(d.Pos()).Offset] + text[fset.Position(d.End()).Offset:]
		}
	}
	return strings.TrimPrefix(text, clause)
}

// declared returns the names of a declaration, Type.Method for a method.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		switch {
		case d.Recv != nil:
			of := types.ExprString(d.Recv.List[0].Type)
			names = append(names, strings.TrimPrefix(of, "*")+"."+d.Name.Name)
		case d.Name.Name != "_":
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// check type-checks a snippet, and returns the errors of its first form if none compiles.
func (s *snippet) check(packages types.Importer) error {
	var first error
	for _, source := range s.sources {
		err := typeCheck(packages, append([]string{source}, s.files...))
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func typeCheck(packages types.Importer, sources []string) error {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, source := range sources {
		f, err := parser.ParseFile(fset, "snippet", source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var all error
	config := types.Config{Importer: packages, Error: func(err error) {
		if e := (types.Error{}); errors.As(err, &e) && !e.Soft { // soft: unused variables and imports
			lines := strings.Split(sources[0], "\n")
			at := ""
			if n := fset.Position(e.Pos).Line; n <= len(lines) {
				at = strings.TrimSpace(lines[n-1])
			}
			all = errors.Join(all, fmt.Errorf("%s\n\t%s", e.Msg, at))
		}
	}}
	_, _ = config.Check("p", fset, files, nil) // the errors have been collected
	return all
}

// compiled returns an importer that reads the compiler's export data of the packages in the workspace.
func compiled(t *testing.T, all []*snippet) types.Importer {
	t.Helper()
	var paths []string
	for _, s := range all {
		for _, source := range append([]string{s.sources[0]}, s.files...) {
			f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ImportsOnly)
			if err != nil {
				t.Fatalf("%s: %v", s.block.At(), err)
			}
			for _, i := range f.Imports {
				path, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	args := []string{"list", "-trimpath", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	list := exec.CommandContext(t.Context(), "go", append(args, slices.Compact(paths)...)...)
	list.Dir = "../.."
	// as in the environment of machine, so that both tests share compiled packages
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	var problems bytes.Buffer
	list.Stderr = &problems
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, problems.String())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no package %q", path)
		}
		return os.Open(files[path])
	})
}
