// Package architecture holds tests of what the code of the whole repository must keep to: who may import whom, how
// constructors and error texts are written, and that what comments name exists.
package architecture

import (
	"encoding/json"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/retrysafe/retrysafe"

func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil { // names of files are those from the root of the repository
		panic(err)
	}
	os.Exit(m.Run())
}

// layer says what the packages of a folder may import of this repository beside the other packages of their own unit
// (see unit), and whether they may import third parties' code. The first layer whose folder matches counts; "x/..." is
// x and what is below it.
type layer struct {
	folder     string
	may        []string // folders, "." is the root; internal ones too
	thirdParty bool
	anything   bool // and no other folder may import it
}

// layers is the import table, of which ARCHITECTURE.md has the outline. TestImportsTableNamesExistingFolders keeps it
// true.
var layers = []layer{
	{folder: "cmd/...", anything: true},
	{folder: "examples/...", anything: true},
	{folder: "integration/...", anything: true},
	{folder: "bench/...", anything: true},

	{folder: "proxy/...", may: []string{
		".", "fingerprint", "httpkey", "httpsafe", "client/httpclient", "internal/caller",
	}},
	{folder: "extproc/...", may: []string{".", "httpsafe"}},
	{folder: "httpsafe/signature/...", may: []string{"outbox/webhook"}},
	{folder: "httpsafe/...", may: []string{
		".", "fingerprint", "httpkey", "internal/caller", "internal/httpsignals", "internal/keytext", "internal/lazyctx",
		"internal/tagplace",
	}},
	{folder: "client/httpclient/...", may: []string{
		".", "fingerprint", "httpkey", "internal/httpsignals", "internal/jsonpointer", "internal/keytext",
	}},
	{folder: "httpkey/...", may: []string{"fingerprint", "internal/jsonpointer", "internal/keytext"}},
	{folder: "client/...", may: []string{".", "internal/keytext", "internal/retry", "internal/sealed"}},
	{folder: "rpcsafe/rpctest/...", may: []string{
		".", "client", "internal/testing/shoppb", "stores/memstore",
	}, thirdParty: true},
	{folder: "rpcsafe/...", may: []string{
		".", "client", "fingerprint", "internal/caller", "internal/keytext", "internal/tagplace",
	}, thirdParty: true},
	{folder: "grpcsafe/...", may: []string{".", "client", "rpcsafe", "internal/caller"}, thirdParty: true},
	{folder: "connectsafe/...", may: []string{".", "client", "rpcsafe"}, thirdParty: true},
	{folder: "caddysafe/...", may: []string{
		".", "httpsafe", "stores/pgstore", "stores/redisstore", "stores/sqlitestore",
	}, thirdParty: true},
	{folder: "queuesafe", may: []string{".", "fingerprint", "internal/keytext", "internal/tagplace"}},
	{folder: "queuesafe/...", may: []string{".", "queuesafe", "outbox", "internal/retry"}, thirdParty: true},
	{folder: "profilefile/...", may: []string{"httpsafe", "internal/yamlfile/profiles"}},
	{folder: "inbox/...", may: []string{".", "httpsafe", "internal/retry", "internal/sealed", "outbox"}},
	{folder: "outbox/...", may: []string{".", "internal/retry", "internal/sealed"}},
	{folder: "observe/...", may: []string{
		".", "client", "rpcsafe", "outbox", "queuesafe", "internal/storestats",
	}, thirdParty: true},

	{folder: "stores/storetest/...", may: []string{".", "internal/model", "stores/memstore"}},
	{folder: "stores/cryptstore/...", may: []string{".", "internal/sealed"}, thirdParty: true},
	{folder: "stores/memstore/...", may: []string{".", "internal/storekit"}},
	{folder: "stores/...", may: []string{".", "internal/elapsed", "internal/storekit"}, thirdParty: true},
	{folder: "retrysafetest/...", may: []string{".", "internal/storekit", "queuesafe", "stores/memstore"}},
	{folder: "fingerprint/...", may: []string{".", "internal/jsonpointer"}},

	{folder: "probe"},
	{folder: "probe/wire/..."},
	{folder: "probe/profile/..."},
	{folder: "probe/cases/..."},
	{folder: "probe/report/..."},
	{folder: "probe/internal/..."},
	{folder: "probe/draft/...", may: []string{"internal/yamlfile"}, thirdParty: true},
	{folder: "probe/recipe/...", may: []string{
		".", "fingerprint", "httpkey", "httpsafe", "internal/jsonpointer", "internal/yamlfile", "internal/yamlfile/profiles",
	}, thirdParty: true},
	{folder: "probe/...", thirdParty: true},

	{folder: "internal/model", may: []string{"."}},
	{folder: "internal/storekit", may: []string{"."}},
	{folder: "internal/tagplace", may: []string{"."}},
	{folder: "internal/storestats", may: []string{"."}},
	{folder: "internal/lazyctx", may: []string{"internal/timerqueue"}},
	{folder: "internal/httpsignals", may: []string{"internal/retry"}},
	{folder: "internal/release/...", thirdParty: true},
	{folder: "internal/testing/...", anything: true},
	{folder: "internal/yamlfile/profiles/...", may: []string{
		".", "fingerprint", "httpkey", "httpsafe",
	}, thirdParty: true},
	{folder: "internal/yamlfile/...", thirdParty: true},
	{folder: "internal/..."},

	{folder: ".", may: []string{"internal/elapsed", "internal/keytext", "internal/lazyctx", "internal/timerqueue"}},
}

// testTools are folders that only tests and each other import: nothing that ships may depend on them.
var testTools = []string{
	"internal/testing", "integration", "bench", "cmd/retrysafe/internal/clitest", "queuesafe/internal/queuetest",
	"rpcsafe/rpctest", "stores/internal/testkit",
}

// Seen to fail with an import of memstore added to guard.go, and one of httpsafe to memstore; with an import of
// internal/caller added to outbox; and with probe added to a file of httpsafe.
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
			} else if unit(folder) != unit(ours) && !slices.Contains(l.may, ours) {
				t.Errorf("%s imports %s: see layers in arch_test.go", file.path, imported)
			}
		}
	}
}

// Seen to fail with an import of internal/testing/soak added to proxy/proxy.go.
func TestImportsOfTestToolsAreTests(t *testing.T) {
	isTool := func(folder string) bool {
		return slices.ContainsFunc(testTools, func(tool string) bool { return within(folder, tool) })
	}
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file.path, "_test.go") || isTool(path.Dir(file.path)) {
			continue
		}
		for _, imported := range file.imports {
			if ours, ok := cutModule(imported); ok && isTool(ours) {
				t.Errorf("%s ships, and imports %s, which is for tests", file.path, imported)
			}
		}
	}
}

// A folder that was renamed leaves no line behind. Seen to fail with internal/rpc named in layers, as a folder and in
// may, and with internal/soak in testTools.
func TestImportsTableNamesExistingFolders(t *testing.T) {
	named := slices.Clone(testTools)
	for _, l := range layers {
		named = append(append(named, strings.TrimSuffix(l.folder, "/...")), l.may...)
	}
	for _, folder := range named {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			t.Errorf("the import table names %s, which is no folder", folder)
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

// A template may call any method of any value, so the linker keeps all methods of all types in a program that reaches
// one: a program with httpsafe and the client of a cloud's database would be 1.4 times as large.
//
// Seen to fail with html/template imported by httpsafe.
func TestRootModuleUsesNoTemplates(t *testing.T) {
	leaves := leafModules(t)
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file.path, "_test.go") ||
			slices.ContainsFunc(leaves, func(m string) bool { return within(path.Dir(file.path), m) }) {
			continue
		}
		for _, imported := range file.imports {
			if imported == "html/template" || imported == "text/template" {
				t.Errorf("%s imports %s, with which the linker leaves out no method", file.path, imported)
			}
		}
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
// Seen to fail with "TestTorture" for "TestSoakTorture" in stores/pgstore.
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

// givenOutside are folders whose constructors are given something outside of the program in their options: URLs and
// patterns of a configuration, the stores that a deployment names, a MeterProvider.
var givenOutside = []string{"proxy", "stores/shardstore", "observe/otelsafe"}

// Constructors, which are functions with options that return a value, follow the rule of ARCHITECTURE.md. Seen to fail
// with the client.NewEngine, httpclient.New and queuesafe.New that returned an error, and with "panics" taken out of
// the comment of httpsafe.Middleware.
func TestConstructorsReportMistakesAlike(t *testing.T) {
	outside := []string{"context.Context", "*sql.DB", "jetstream.JetStream", "*kgo.Client"}
	for _, file := range goFiles(t) {
		folder := path.Dir(file.path)
		if strings.HasSuffix(file.path, "_test.go") || layerOf(folder).anything || strings.Contains(folder, "internal") {
			continue
		}
		for _, d := range file.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil {
				continue
			}
			given, results := typesOf(f.Type.Params), typesOf(f.Type.Results)
			hasOptions := func(typ string) bool { return strings.HasSuffix(typ, "Options") }
			if !slices.ContainsFunc(given, hasOptions) || results[0] == "string" || results[0] == "error" {
				continue
			}
			fails := results[len(results)-1] == "error"
			isOutside := func(typ string) bool { return slices.Contains(outside, typ) }
			if fails && f.Name.Name != "Open" && !slices.ContainsFunc(given, isOutside) && !slices.Contains(givenOutside, folder) {
				t.Errorf("%s: %s returns an error although it is given nothing outside of the program: let it panic, and "+
					"Options.Validate return the error", file.path, f.Name)
			}
			panics := false
			ast.Inspect(f.Body, func(n ast.Node) bool {
				called, ok := n.(*ast.CallExpr)
				panics = panics || ok && types.ExprString(called.Fun) == "panic"
				return true
			})
			if says := strings.Contains(f.Doc.Text(), "panics"); panics && !says || fails && says {
				t.Errorf("%s: %s returns an error: %t, panics: %t, and says that it panics: %t", file.path, f.Name, fails, panics,
					says)
			}
		}
	}
}

// Texts of errors begin as ARCHITECTURE.md says. Seen to fail with the name taken out of pgstore.ErrClosed and of a
// panic of queuesafe.New, with "pgstore: " before "claim" in claim.go, and with "demo: " before a text of the demo.
func TestErrorTextsBeginAlike(t *testing.T) {
	n := 0
	for _, file := range goFiles(t) {
		folder, name := path.Dir(file.path), file.syntax.Name.Name
		top, _, _ := strings.Cut(folder, "/")
		hidden := top == "cmd" || top == "probe" || strings.Contains(folder, "internal")
		if strings.HasSuffix(file.path, "_test.go") || within(folder, "stores/storetest") || within(folder, "rpcsafe/rpctest") || // they play work that panics
			within(folder, "internal/testing") || slices.Contains([]string{"bench", "examples", "integration"}, top) {
			continue
		}
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Values) == 1 && ast.IsExported(spec.Names[0].Name) {
				text, ok := errorText(spec.Values[0])
				if n++; ok && !hidden && !strings.HasPrefix(text, name+": ") {
					t.Errorf("%s: the text of %s does not begin with %q: %q", file.path, spec.Names[0].Name, name+": ", text)
				}
			}
			x, _ := node.(ast.Expr)
			text, ok := errorText(x)
			if !ok {
				return true
			}
			n++
			before, after, _ := strings.Cut(text, ": ")
			verb, _, _ := strings.Cut(after, " ")
			switch isPanic := types.ExprString(x.(*ast.CallExpr).Fun) == "panic"; {
			case hidden && before == name && !isPanic:
				t.Errorf("%s: %q begins with the name of a package that users do not know", file.path, text)
			case isPanic && !hidden && before != name:
				t.Errorf("%s: the panic %q does not begin with %q", file.path, text, name+": ")
			case within(folder, "stores") && before == name && slices.Contains(storeMethods, verb):
				t.Errorf("%s: %q begins with the name of the package, and is of a method", file.path, text)
			}
			return true
		})
	}
	if n < 500 {
		t.Errorf("%d texts found, want all of them", n)
	}
}

// storeMethods begin the texts of what methods of a store return.
var storeMethods = []string{
	"claim", "extend", "checkpoint", "complete", "release", "inspect", "list", "walk", "stats", "sweep", "purge", "watch",
}

// errorText returns the text of errors.New, fmt.Errorf, or of a panic with a text.
func errorText(x ast.Expr) (text string, ok bool) {
	call, ok := x.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return "", false
	}
	switch types.ExprString(call.Fun) {
	case "errors.New", "fmt.Errorf", "panic":
		return beginning(call.Args[0])
	}
	return "", false
}

// beginning returns the first literal of a text.
func beginning(x ast.Expr) (text string, ok bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(x.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		return beginning(x.X)
	case *ast.CallExpr:
		if types.ExprString(x.Fun) == "fmt.Sprintf" {
			return beginning(x.Args[0])
		}
	}
	return "", false
}

// A [Name] in a doc comment of a public package is a link: go doc leaves the brackets where the package has no such
// name. It does not look into other packages. Seen to fail with [Guard.Purge] written "[Guard.Purged]" in resolve.go.
func TestDocLinksLeadSomewhere(t *testing.T) {
	packages := map[string][]*ast.File{}
	set := token.NewFileSet()
	for _, file := range goFiles(t) {
		folder := path.Dir(file.path)
		if !strings.HasSuffix(file.path, "_test.go") && !layerOf(folder).anything && !strings.Contains(folder, "internal") {
			syntax, err := parser.ParseFile(set, file.path, nil, parser.ParseComments) // package doc takes parts out of it
			if err != nil {
				t.Fatal(err)
			}
			packages[folder] = append(packages[folder], syntax)
		}
	}
	notLinked := regexp.MustCompile(`\\\[(\w+\.)?[A-Z]\w+(\.[A-Z]\w+)?\]`)
	links := 0
	for folder, files := range packages {
		p, err := doc.NewFromFiles(set, files, path.Join(module, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range docsOf(p) {
			// In Markdown a link is followed by its target, and the bracket of other text has a backslash.
			markdown := string(p.Markdown(text))
			links += strings.Count(markdown, "](")
			for _, name := range notLinked.FindAllString(markdown, -1) {
				t.Errorf("%s: the doc link %s leads nowhere", folder, name[1:])
			}
		}
	}
	if links < 300 {
		t.Errorf("%d doc links found, want all of them", links)
	}
}

// docsOf returns the doc comments of a package.
func docsOf(p *doc.Package) []string {
	all := []string{p.Doc}
	values := func(of []*doc.Value) {
		for _, v := range of {
			all = append(all, v.Doc)
		}
	}
	functions := func(of []*doc.Func) {
		for _, f := range of {
			all = append(all, f.Doc)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, typ := range p.Types {
		all = append(all, typ.Doc)
		values(typ.Consts)
		values(typ.Vars)
		functions(typ.Funcs)
		functions(typ.Methods)
	}
	return all
}

func typesOf(fields *ast.FieldList) (all []string) {
	for _, field := range fields.List {
		all = append(all, types.ExprString(field.Type))
	}
	return all
}

// Lock files of npm pin every version by its hash, and say nothing of where it was downloaded. Seen to fail with a
// "resolved" line in one of them.
func TestLockFilesPinVersionsAndNameNoHost(t *testing.T) {
	n := 0
	err := walk(func(name string) error {
		if filepath.Base(name) != "package-lock.json" {
			return nil
		}
		n++
		var lock struct {
			Packages map[string]struct{ Version, Integrity, Resolved string }
		}
		if err := json.Unmarshal([]byte(read(t, name)), &lock); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for dependency, p := range lock.Packages {
			if dependency != "" && (p.Version == "" || p.Integrity == "" || p.Resolved != "") {
				t.Errorf("%s: %s is not pinned, or has an address", name, dependency)
			}
		}
		return nil
	})
	if err != nil || n < 20 {
		t.Fatalf("%d lock files, %v", n, err)
	}
}

// Caddy finds the modules of a program in no other way.
func TestNoInitFunctions(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.path == "caddysafe/handler.go" {
			continue
		}
		for _, d := range file.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" &&
				!strings.HasSuffix(file.path, ".pb.go") {
				t.Errorf("%s has an init function: say what depends on what, in cmd", file.path)
			}
		}
	}
}

// unit returns the store, the adapter or the observer that a folder belongs to, whose packages may import each other.
func unit(folder string) string {
	parts := strings.Split(folder, "/")
	if len(parts) > 1 && slices.Contains([]string{"internal", "observe", "queuesafe", "stores"}, parts[0]) {
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
	set     *token.FileSet
	path    string
	syntax  *ast.File
	imports []string
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// parsed is what most tests of this file read.
var parsed = sync.OnceValues(func() (files []goFile, err error) {
	set := token.NewFileSet()
	err = walk(func(name string) error {
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		f := goFile{set: set, path: name, syntax: syntax}
		for _, i := range syntax.Imports {
			imported, _ := strconv.Unquote(i.Path.Value)
			f.imports = append(f.imports, imported)
		}
		files = append(files, f)
		return nil
	})
	return files, err
})

func leafModules(t *testing.T) []string {
	t.Helper()
	var modules []string
	err := walk(func(name string) error {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			modules = append(modules, path.Dir(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

func walk(visit func(name string) error) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || len(d.Name()) > 1 && d.Name()[0] == '.') {
			return fs.SkipDir
		}
		return visit(filepath.ToSlash(name))
	})
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The clients, the outbox, the proxy and the adapters for queues take child keys from the Guard, which has the secret.
// rerun.go compares the two.
//
// Seen to fail with Key.Child called by the outbox.
func TestChildKeysComeFromTheGuard(t *testing.T) {
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file.path, "_test.go") || within(file.path, "rpcsafe/rpctest") ||
			slices.Contains([]string{"key.go", "proxy/rerun.go"}, file.path) {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Child" {
				t.Errorf("%s: call Attempt.ChildKey or Guard.ChildKey, which know Options.ChildSecret", file.set.Position(n.Pos()))
			}
			return true
		})
	}
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

// The command is released with the versions that its tests have run with: its go.mod chooses what go.work chooses. Seen to
// fail with an older github.com/dustin/go-humanize in cmd/retrysafe/go.mod.
func TestCommandIsReleasedAsTested(t *testing.T) {
	modules := func(work string) []string {
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}")
		list.Dir, list.Env = "cmd/retrysafe", append(os.Environ(), work)
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Fields(strings.ReplaceAll(string(out), " ", "@"))
		slices.Sort(lines)
		return slices.Compact(lines)
	}
	tested := modules("GOWORK=")
	for _, m := range modules("GOWORK=off") {
		if !strings.HasPrefix(m, module) && !slices.Contains(tested, m) {
			t.Errorf("%s is not the version that tests run with: set that of go.work in cmd/retrysafe/go.mod", m)
		}
	}
}
