package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/proxycmd"
)

// Run the tests with -write to bring the pages up to date.
var write = flag.Bool("write", false, "write the pages of the reference")

// columns is the width of prose on a page.
const columns = 118

// docs/command-line.md has the help of every command, and docs/go-packages.md every package that programs can import
// with the first sentence of its comment.
//
// Seen to fail with the help of manCmd changed, and with the first sentence of package queuesafe changed.
func TestThePagesOfTheReferenceAreWritten(t *testing.T) {
	for page, text := range map[string]string{"command-line.md": commandPage(t), "go-packages.md": packagePage(t)} {
		name := filepath.Join(repository, "docs", page)
		if *write {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("docs/%s is not what the code says, %v; run go test . -write in cmd/retrysafe", page, err)
		}
	}
}

func commandPage(t *testing.T) string {
	t.Helper()
	app, err := kong.New(&commands{}, kong.Name("retrysafe"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Command line\n\nEach command of `retrysafe` with its flags, as `--help` prints them; " +
		"`retrysafe man` is the same as a manual page.\n\nThis page is written by a test from the commands themselves.\n")
	for _, n := range app.Model.Children {
		command(&b, n)
	}
	return b.String()
}

// command writes a section about a command, and one about each of its subcommands.
func command(b *strings.Builder, n *kong.Node) {
	if n.Hidden {
		return
	}
	name := strings.TrimPrefix(n.FullPath(), "retrysafe ")
	fmt.Fprintf(b, "\n## %s\n\n%s\n", name, cli.Wrap(sentence(n.Help), 0, columns))
	if len(n.Children) == 0 {
		fmt.Fprintf(b, "\n```text\nretrysafe %s\n```\n", n.Summary())
	}
	code := ""
	for paragraph := range strings.SplitSeq(n.Detail+"\n\n", "\n\n") {
		switch isCode := strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n "); {
		case isCode && code == "":
			code = paragraph
		case isCode:
			code += "\n\n" + paragraph
		default:
			if code != "" {
				fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.TrimRight(code, "\n"))
			}
			if code = ""; strings.TrimSpace(paragraph) != "" {
				fmt.Fprintf(b, "\n%s\n", cli.Wrap(sentence(paragraph), 0, columns))
			}
		}
	}
	var rows []string
	row := func(name, help string) {
		rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", name, strings.ReplaceAll(sentence(help), "|", `\|`)))
	}
	for _, p := range n.Positional {
		row(p.Summary(), proxycmd.FlagHelp(p))
	}
	for _, f := range n.Flags {
		if !f.Hidden {
			row(f.String(), proxycmd.FlagHelp(f.Value))
		}
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n| argument or flag | meaning |\n|---|---|\n%s", strings.Join(rows, ""))
	}
	for _, sub := range n.Children {
		command(b, sub)
	}
}

// sentence returns text of a help as a line of Markdown.
func sentence(text string) string {
	return strings.NewReplacer("*", `\*`, "<", "&lt;", "[", `\[`).Replace(strings.Join(strings.Fields(text), " "))
}

func packagePage(t *testing.T) string {
	t.Helper()
	var rows []string
	err := filepath.WalkDir(repository, func(folder string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && folder != repository
		private := []string{"internal", "testdata", "node_modules", "examples", "integration", "bench", "docs"}
		if hidden || slices.Contains(private, d.Name()) {
			return filepath.SkipDir
		}
		synopsis := synopsisOf(t, folder)
		if synopsis == "" {
			return nil
		}
		importPath := path.Join("github.com/retrysafe/retrysafe", filepath.ToSlash(strings.TrimPrefix(folder, repository)))
		name := strings.TrimPrefix(importPath, "github.com/retrysafe/")
		rows = append(rows, fmt.Sprintf("| [`%s`](https://pkg.go.dev/%s) | %s |\n", name, importPath, sentence(synopsis)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	about := "The packages that programs can import, each with the first sentence of its comment. `go doc PACKAGE` " +
		"prints the whole reference, and the links lead to it. The paths begin with `github.com/retrysafe/`."
	return "# Go packages\n\n" + cli.Wrap(about, 0, columns) + "\n\n" +
		"This page is written by a test from the comments of the packages.\n\n| package | what it is |\n|---|---|\n" +
		strings.Join(rows, "")
}

// synopsisOf returns the first sentence of the comment of a package, or "" if the folder has none that can be
// imported.
func synopsisOf(t *testing.T, folder string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if text := comment(file); text != "" && file.Name.Name != "main" && !strings.HasSuffix(name, "_test.go") {
			_, about, _ := strings.Cut(new(doc.Package).Synopsis(text), file.Name.Name+" ")
			return strings.NewReplacer("[", "", "]", "").Replace(about)
		}
	}
	return ""
}

func comment(file *ast.File) string {
	if file.Doc == nil {
		return ""
	}
	return file.Doc.Text()
}
