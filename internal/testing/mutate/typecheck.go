package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// checker finds the mutants that compile, much faster than the compiler.
type checker struct {
	fset    *token.FileSet
	imports types.Importer
	files   map[string]*ast.File // the unchanged package
}

func newChecker(folder string, sources map[string][]byte) (*checker, error) {
	exports, err := exportsFor(folder)
	if err != nil {
		return nil, err
	}
	c := &checker{fset: token.NewFileSet(), files: map[string]*ast.File{}}
	c.imports = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for path, source := range sources {
		parsed, err := parser.ParseFile(c.fset, path, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c.files[path] = parsed
	}
	return c, c.check(c.files)
}

// exportsFor returns the files with the compiler's export data of the packages that folder imports.
func exportsFor(folder string) (map[string]string, error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./"+folder).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = file
	}
	return exports, nil
}

func (c *checker) check(files map[string]*ast.File) error {
	config := types.Config{Importer: c.imports}
	_, err := config.Check("target", c.fset, slices.Collect(maps.Values(files)), nil)
	return err
}

// compiles reports whether the package compiles with the change.
func (c *checker) compiles(m mutant) bool {
	parsed, err := parser.ParseFile(c.fset, m.file, m.mutated(), parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	files := maps.Clone(c.files)
	files[m.file] = parsed
	return c.check(files) == nil
}
