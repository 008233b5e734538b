package retrysafe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/retrysafe/retrysafe"

// layer says what the packages of a folder may import of this repository, and whether they may import third parties'
// code. The first layer whose folder matches counts; "x/..." is x and what is below it.
type layer struct {
	folder     string
	may        []string // folders, "." is the root
	thirdParty bool
	anything   bool // and nobody may import it
}

// layers is the import table of ARCHITECTURE.md.
var layers = []layer{
	{folder: "cmd/...", anything: true},
	{folder: "examples/...", anything: true},
	{folder: "integration/...", anything: true},
	{folder: "bench/...", anything: true},
	{folder: "internal/testing/crosscheck/...", anything: true},
	{folder: "internal/release/...", thirdParty: true},
	{folder: "internal/testing/shoppb", thirdParty: true},
	{folder: "internal/storekit", may: []string{"."}},
	{folder: "internal/..."},
	{folder: "probe/...", thirdParty: true},
	{folder: "stores/storetest/...", may: []string{".", "stores/memstore"}},
	{folder: "stores/memstore/...", may: []string{"."}},
	{folder: "stores/shardstore/...", may: []string{"."}},
	{folder: "stores/...", may: []string{"."}, thirdParty: true},
	{folder: "retrysafetest/...", may: []string{".", "stores/memstore"}},
	{folder: "fingerprint", may: []string{"."}},
	{folder: "client/httpclient/...", may: []string{".", "fingerprint", "client", "httpsafe"}},
	{folder: "client/...", may: []string{".", "client"}},
	{folder: "proxy/...", may: []string{".", "fingerprint", "httpsafe", "client/httpclient"}},
	{folder: "httpsafe/...", may: []string{".", "fingerprint"}},
	{folder: "rpcsafe/...", may: []string{".", "fingerprint", "client"}, thirdParty: true},
	{folder: "grpcsafe/...", may: []string{".", "client", "rpcsafe"}, thirdParty: true},
	{folder: "connectsafe/...", may: []string{".", "client", "rpcsafe"}, thirdParty: true},
	{folder: "queuesafe", may: []string{".", "fingerprint"}},
	{folder: "queuesafe/...", may: []string{".", "queuesafe", "outbox"}, thirdParty: true},
	{folder: "outbox/...", may: []string{"."}},
	{folder: "admin/...", may: []string{"."}},
	{folder: "observe/...", may: []string{".", "client", "client/httpclient", "httpsafe", "outbox", "queuesafe"}, thirdParty: true},
	{folder: "."},
}

// Seen to fail with an import of memstore added to guard.go, and one of httpsafe to memstore.
func TestImportsFollowTheTable(t *testing.T) {
	for _, file := range goFiles(t) {
		folder := path.Dir(file.path)
		l := layerOf(folder)
		if l.anything || strings.HasSuffix(file.path, "_test.go") {
			continue
		}
		for _, imported := range file.imports {
			if ours, ok := cutModule(imported); !ok {
				if isThirdParty(imported) && !l.thirdParty {
					t.Errorf("%s imports %s: this folder uses the standard library only", file.path, imported)
				}
			} else if !l.mayImport(folder, ours) {
				t.Errorf("%s imports %s: see the table in ARCHITECTURE.md", file.path, imported)
			}
		}
	}
}

// The root requires nothing, so its tests may not either.
func TestRootModuleUsesTheStandardLibraryOnly(t *testing.T) {
	leaves := leafModules(t)
	for _, file := range goFiles(t) {
		if slices.ContainsFunc(leaves, func(m string) bool { return within(path.Dir(file.path), m) }) {
			continue
		}
		for _, imported := range file.imports {
			ours, ok := cutModule(imported)
			inLeaf := ok && slices.ContainsFunc(leaves, func(m string) bool { return within(ours, m) })
			if inLeaf || !ok && isThirdParty(imported) {
				t.Errorf("%s imports %s, which the root module does not have", file.path, imported)
			}
		}
	}
	if mod := read(t, "go.mod"); strings.Contains(mod, "require") {
		t.Error("go.mod of the root requires something")
	}
}

func TestWorkspaceListsEveryModule(t *testing.T) {
	work := read(t, "go.work")
	for _, m := range leafModules(t) {
		if !strings.Contains(work, "\t./"+m+"\n") {
			t.Errorf("go.work does not list ./%s", m)
		}
	}
}

// make soak finds the tests that can be made longer by their names.
// Seen to fail with TestTorture for TestSoakTorture in stores/pgstore.
func TestLongTestsAreNamedSo(t *testing.T) {
	for _, file := range goFiles(t) {
		for _, d := range file.syntax.Decls {
			ast.Inspect(d, func(n ast.Node) bool {
				selected, ok := n.(*ast.SelectorExpr)
				if !ok || selected.Sel.Name != "Times" {
					return true
				}
				if x, ok := selected.X.(*ast.Ident); !ok || x.Name != "soak" {
					return true
				}
				if f, ok := d.(*ast.FuncDecl); !ok || !strings.HasPrefix(f.Name.Name, "TestSoak") {
					t.Errorf("%s calls soak.Times outside of a test whose name begins with TestSoak", file.path)
				}
				return true
			})
		}
	}
}

func TestNoInitFunctions(t *testing.T) {
	for _, file := range goFiles(t) {
		for _, d := range file.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && !strings.HasSuffix(file.path, ".pb.go") {
				t.Errorf("%s has an init function: say what depends on what, in cmd", file.path)
			}
		}
	}
}

func (l layer) mayImport(folder, ours string) bool {
	helper := within(ours, "internal") && ours != "internal/testing/crosscheck"
	return helper || sameUnit(folder, ours) || slices.Contains(l.may, ours)
}

// sameUnit reports whether both folders belong to one store, one adapter, one observer.
func sameUnit(a, b string) bool { return unit(a) == unit(b) }

func unit(folder string) string {
	parts := strings.Split(folder, "/")
	if len(parts) > 1 && (parts[0] == "stores" || parts[0] == "observe" || parts[0] == "queuesafe") {
		return path.Join(parts[:2]...)
	}
	return parts[0]
}

func layerOf(folder string) layer {
	for _, l := range layers {
		if top, all := strings.CutSuffix(l.folder, "/..."); top == folder || all && within(folder, top) {
			return l
		}
	}
	return layer{folder: folder}
}

func within(folder, top string) bool {
	return folder == top || strings.HasPrefix(folder, top+"/")
}

func cutModule(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

func isThirdParty(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".")
}

type goFile struct {
	path    string
	syntax  *ast.File
	imports []string
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	set := token.NewFileSet()
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		syntax, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		f := goFile{path: name, syntax: syntax}
		for _, i := range syntax.Imports {
			imported, _ := strconv.Unquote(i.Path.Value)
			f.imports = append(f.imports, imported)
		}
		files = append(files, f)
	})
	return files
}

func leafModules(t *testing.T) []string {
	t.Helper()
	var modules []string
	walk(t, func(name string) {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			modules = append(modules, path.Dir(name))
		}
	})
	return modules
}

func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || len(d.Name()) > 1 && d.Name()[0] == '.') {
			return fs.SkipDir
		}
		visit(filepath.ToSlash(name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A program that uses the library and its middleware depends on nothing else.
func TestProgramNeedsOneRequirement(t *testing.T) {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", `package main

import (
	_ "`+module+`"
	_ "`+module+`/httpsafe"
)

func main() {}
`)
	write("go.mod", "module example.test/program\n\ngo 1.26.0\n\nreplace "+module+" => "+root+"\n")
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Dir = dir
	tidy.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS=-mod=mod")
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(mod), " v"); n != 1 {
		t.Errorf("the program requires %d modules, want 1:\n%s", n, mod)
	}
}
