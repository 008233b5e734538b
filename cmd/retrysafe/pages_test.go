package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/internal/testing/pages"
	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
	"github.com/retrysafe/retrysafe/outbox/webhook"
	"github.com/retrysafe/retrysafe/probe/draft"
	"github.com/retrysafe/retrysafe/probe/recipe"
)

const repository = "../.."

// allBlocks are the blocks of code of README.md and docs.
func allBlocks(t *testing.T) (all []pages.Block) {
	t.Helper()
	paths, err := pages.All(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		blocks, err := pages.Read(path)
		if err != nil {
			t.Error(err)
		}
		all = append(all, blocks...)
	}
	if len(all) == 0 {
		t.Fatal("no page has a block")
	}
	return all
}

// otherCommands are those of other people, which are run by the tests that follow the guides and not looked into
// here.
var otherCommands = []string{
	"aws", "cat", "cd", "chmod", "cp", "createdb", "curl", "docker", "export", "git", "kill", "ls", "mkdir", "node", "npm", "npx", "pip", "psql", "python3",
	"redis-cli", "rm",
	"sha256sum", "sqlite3", "ssh-keygen", "sudo", "systemctl",
}

// Each command line on a page names a command, flags, a make target or a folder that exist.
//
// Seen to fail with --uptream and `migrate upp` in docs/postgres.md, with `make tests` and ./examples/nothing on
// pages, and with a block of commands that is not labelled.
func TestCommandsOfThePagesExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range allBlocks(t) {
		if b.Lang == "" && unlabelled.MatchString(b.Text) {
			t.Errorf("%s: a block with commands; write ```sh, or ```console with $ before each command", b.At())
		}
		for _, c := range b.Commands() {
			n++
			words, err := draft.Split(c.Text)
			if err != nil {
				t.Errorf("%s:%d: %s: %v", b.Page, c.Line, c.Text, err)
				continue
			}
			for len(words) > 0 && variable.MatchString(words[0]) { // NAME=value before the command
				words = words[1:]
			}
			if len(words) == 0 {
				continue
			}
			if problem := checkCommand(words, string(makefile)); problem != "" {
				t.Errorf("%s:%d: %s: %s", b.Page, c.Line, c.Text, problem)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d command lines found, want all of them", n)
	}
}

var (
	unlabelled = regexp.MustCompile(`(?m)^(\$ |retrysafe |go (run|get|install|test) |curl |psql |make )`)
	variable   = regexp.MustCompile(`^[A-Z_]+=`)
	// spans is code in a sentence.
	spans = regexp.MustCompile("`(retrysafe [^`|…]*)`")
)

func checkCommand(words []string, makefile string) (problem string) {
	switch name, args := words[0], words[1:]; {
	case name == "retrysafe":
		return checkRetrysafe(args)
	case name == "make":
		for _, target := range args {
			if !strings.Contains(target, "=") && !strings.Contains(makefile, "\n"+target+":") {
				return "the Makefile has no target " + target
			}
		}
	case name == "go":
		return checkGo(args)
	case !slices.Contains(otherCommands, name):
		return "is that a command? If it is, add it to otherCommands"
	}
	return ""
}

// checkRetrysafe parses a command line as main does.
func checkRetrysafe(args []string) (problem string) {
	app, err := kong.New(&commands{}, kong.Name("retrysafe"), cli.Durations(), kong.Exit(func(int) {}),
		kong.Writers(io.Discard, io.Discard))
	if err != nil {
		return err.Error()
	}
	if _, err := app.Parse(args); err != nil {
		return err.Error()
	}
	return ""
}

// checkGo looks for what a go command is about in the repository, if it is ours.
func checkGo(args []string) (problem string) {
	for i, arg := range args {
		folder, ours := strings.CutPrefix(arg, "./")
		if !ours {
			path, _, _ := strings.Cut(arg, "@")
			folder, ours = strings.CutPrefix(path+"/", "github.com/retrysafe/retrysafe/")
		}
		if !ours || folder == "..." {
			continue
		}
		if _, err := os.Stat(filepath.Join(repository, folder)); err != nil {
			return "there is no folder " + folder
		}
		if args[0] == "run" {
			if folder == "cmd/retrysafe" {
				return checkRetrysafe(args[i+1:])
			}
			return ""
		}
	}
	return ""
}

// A command of ours in a sentence has flags that exist; arguments may be left out there.
//
// Seen to fail with `retrysafe sweep --all` in a sentence.
func TestCommandsInSentencesExist(t *testing.T) {
	paths, err := pages.All(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range spans.FindAllStringSubmatch(string(text), -1) {
			words, err := draft.Split(found[1])
			if err != nil {
				t.Errorf("%s: %s: %v", path, found[1], err)
				continue
			}
			problem := checkRetrysafe(words[1:])
			if strings.HasPrefix(problem, "missing ") || strings.HasPrefix(problem, "expected ") || strings.Contains(problem, `"EOL"`) {
				continue
			}
			if problem != "" {
				t.Errorf("%s: %s: %s", path, found[1], problem)
			}
		}
	}
}

// YAML on a page is a configuration of the proxy, or a recipe of the probe, or a part of one, and is read by what
// reads it.
//
// Seen to fail with `retension`, `in_flight: later` and an upstream_key left out after `abandoned: rerun` on pages,
// and with `indentity` in a recipe.
func TestYAMLOfThePagesIsRead(t *testing.T) {
	t.Setenv("RECONCILE_SECRET", webhook.NewSecret())
	t.Setenv("BODY_HASH_SECRET", webhook.NewSecret())
	t.Setenv("UPSTREAM_KEY_SECRET", webhook.NewSecret())
	t.Setenv("STRIPE_WEBHOOK_SECRET", webhook.NewSecret())
	t.Setenv("OIDC_CLIENT_SECRET", "secret")
	blocks := allBlocks(t)
	t.Chdir(t.TempDir()) // where the pages have their files
	var out, errs bytes.Buffer
	if code := run([]string{"keyset", "new", "keyset.json"}, &out, &errs); code != cli.ExitOK {
		t.Fatal(errs.String())
	}
	if err := os.WriteFile("github-secret", []byte("It's a Secret to Everybody"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("users", []byte("alice resolve sha256:"+strings.Repeat("0", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range blocks {
		if b.Lang != "yaml" {
			continue
		}
		n++
		if isChart.MatchString(b.Text) {
			continue // TestSoakChart of deploy/helm renders the chart with these values
		}
		if isEnvoy.MatchString(b.Text) {
			continue // TestThePage of integration/envoy reads it into Envoy's own types
		}
		if isProfile.MatchString(b.Text) {
			if _, err := profiles.Parse(b.At(), []byte(b.Text)); err != nil {
				t.Error(err)
			}
			continue
		}
		if isRecipe.MatchString(b.Text) {
			if _, err := recipe.Parse(b.At(), []byte(wholeRecipe(b.Text)), func(name string) (string, bool) { return name, true }); err != nil {
				t.Errorf("%s: %v", b.At(), err)
			}
			continue
		}
		file := filepath.Join(t.TempDir(), "proxy.yaml")
		if err := os.WriteFile(file, []byte(wholeConfiguration(b.Text)), 0o600); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		errs.Reset()
		if code := run([]string{"proxy", "--config", file, "--check", "--offline"}, &out, &errs); code != cli.ExitOK {
			t.Errorf("%s: exit status %d: %s", b.At(), code, errs.String())
		}
	}
	if n < 8 {
		t.Errorf("%d blocks of YAML found, want all of them", n)
	}
}

var (
	isProfile = regexp.MustCompile(`(?m)^base:`)
	isChart   = regexp.MustCompile(`(?m)^(image|replicas|serviceMonitor|retrysafe|dependencies):`)
	isEnvoy   = regexp.MustCompile(`(?m)^static_resources:`)
	isRecipe  = regexp.MustCompile(`(?m)^(target|count):`)
	isRoute   = regexp.MustCompile(`^ *[A-Z]+ /`)
)

// wholeConfiguration adds what a part of a configuration leaves out.
func wholeConfiguration(text string) string {
	if isRoute.MatchString(text) {
		text = "routes:\n" + text
	}
	if !strings.Contains(text, "upstream:") {
		text = "upstream: http://localhost:3000\n" + text
	}
	return text
}

func wholeRecipe(text string) string {
	if !strings.Contains(text, "target:") {
		text = "target: http://127.0.0.1:8080\nrequest: {path: /payments, body: '{{uuid}}'}\nidentity: {pointer: /id}\n" + text
	}
	return text
}

// A claim of a page that names its test is only as good as the test. Each that is named exists.
//
// Seen to fail with "TestSoakKiled" on docs/choosing-a-store.md.
func TestTestsOfThePagesExist(t *testing.T) {
	exists := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			exists[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	paths, err := pages.All(repository)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllSubmatch(text, -1) {
			if named++; !exists[string(name[1])] {
				t.Errorf("%s names %s, which does not exist", path, name[1])
			}
		}
	}
	if named == 0 {
		t.Error("no page names a test")
	}
}

// A command of a page that runs some tests or benchmarks names a package that has them: with another one it would end
// well, and run nothing.
//
// Seen to fail with "./probe" on docs/defects.md, and with "Pears" and "TestSoakKilled" in other commands.
func TestTestCommandsOfThePagesRunTests(t *testing.T) {
	paths, err := pages.All(repository)
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?:cd (\\S+) && )?go test ([^`#\n]*(?:\n[^`#\n]*`)?)") // a span may go on in the next line
	runs := 0
	for _, path := range append(paths, filepath.Join(repository, "CONTRIBUTING.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range command.FindAllStringSubmatch(string(text), -1) {
			words, folder := strings.Fields(strings.Trim(found[2], "`")), "."
			selected := map[string]string{}
			for i, word := range words {
				switch {
				case i > 0 && (words[i-1] == "-run" || words[i-1] == "-bench"):
					selected[words[i-1]], _, _ = strings.Cut(strings.Trim(word, "'"), "/")
				case strings.HasPrefix(word, "."):
					folder = word
				}
			}
			for flag, pattern := range selected {
				if pattern == "^$" { // no test, beside benchmarks
					continue
				}
				runs++
				kind := map[string]string{"-run": "Test", "-bench": "Benchmark"}[flag]
				if !hasTest(t, filepath.Join(repository, found[1], folder), kind, pattern) {
					t.Errorf("%s: go test %s: %s has no %s that %s selects", path, found[2], filepath.Join(found[1], folder), kind, pattern)
				}
			}
		}
	}
	if runs == 0 {
		t.Error("no page has such a command")
	}
}

// hasTest reports whether a package has a function of a kind, Test or Benchmark, that the pattern selects.
func hasTest(t *testing.T, folder, kind, pattern string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	selects := regexp.MustCompile(pattern)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^func (`+kind+`\w*)\(`).FindAllSubmatch(text, -1) {
			if selects.Match(found[1]) {
				return true
			}
		}
	}
	return false
}

// A link of a Markdown file in the repository leads to a file or folder, and what follows # to a heading of it. The
// notes in bench/compare/subjects are parts of pages in docs/compare.
//
// Seen to fail with "getting-starter-proxy.md" and with "choosing-a-store.md#costs" in README.md.
func TestLinksOfThePagesExist(t *testing.T) {
	var paths []string
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(entry.Name(), ".") && path != repository
		if entry.IsDir() && (hidden || slices.Contains([]string{"node_modules", "subjects", "testdata"}, entry.Name())) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{} // without blocks of code
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = fencedBlock.ReplaceAllString(string(text), "")
	}
	n := 0
	for path, text := range texts {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			to, heading, _ := strings.Cut(found[1], "#")
			if strings.Contains(to, ":") {
				continue // another site
			}
			n++
			target := path
			if to != "" {
				target = filepath.Join(filepath.Dir(path), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere", path, found[1])
			} else if heading != "" && !slices.Contains(anchors(texts[target]), heading) {
				t.Errorf("%s: the link %s names no heading of that page", path, found[1])
			}
		}
	}
	if n < 100 {
		t.Errorf("%d links found, want all of them", n)
	}
	docs := filepath.Join(repository, "docs")
	for path := range texts { // seen to fail with docs/limits.md taken out of the list
		if page, err := filepath.Rel(docs, path); err == nil && !strings.HasPrefix(page, "..") && page != "README.md" &&
			!strings.HasPrefix(page, "compare") && !strings.Contains(texts[filepath.Join(docs, "README.md")], "]("+page+")") {
			t.Errorf("docs/README.md does not list %s", page)
		}
	}
}

var (
	fencedBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	link        = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	headingLine = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// anchors returns what links to the headings of a page are called, as GitHub makes them.
func anchors(text string) (all []string) {
	for _, heading := range headingLine.FindAllStringSubmatch(text, -1) {
		kept := notInAnchor.ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}
