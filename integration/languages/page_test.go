package languages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/pages"
)

// shown matches the part of a program that its page shows, between the lines "page: begin" and "page: end".
var shown = regexp.MustCompile(`(?ms)^ *(?:#|//|--) page: begin\n(.*?)^ *(?:#|//|--) page: end$`)

// A block of a page that names a file of ours shows that file, or the part of it between the marks. Each of the
// pages has such a block.
//
// Seen to fail with a word of a page changed, with one of a program changed, and with the block's file taken away.
func TestPagesShowTheProgramsThatAreRun(t *testing.T) {
	paths, err := filepath.Glob("../../docs/frameworks/*.md")
	if err != nil || len(paths) < 9 {
		t.Fatalf("%d pages of frameworks: %v", len(paths), err)
	}
	for _, path := range append(paths, "../../docs/exactly-once.md", "../../docs/when-you-do-not-need-it.md",
		"../../docs/ruby.md", "../../docs/php.md", "../../docs/csharp.md") {
		blocks, err := pages.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, b := range blocks {
			if b.File == "" || b.Run != "" { // with run=, a reader saves it: see integration/guides
				continue
			}
			n++
			file := filepath.Join(strings.TrimSuffix(filepath.Base(path), ".md"), b.File)
			if _, err := os.Stat(file); err != nil { // a page that has no folder shows a file beside the tests
				file = b.File
			}
			if got := part(t, file); got != b.Text {
				t.Errorf("%s differs from integration/languages/%s, which is\n%s", b.At(), file, got)
			}
		}
		if n == 0 {
			t.Errorf("%s shows no file of integration/languages", path)
		}
	}
}

// part returns what a page shows of a file, without its indentation.
func part(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	part := string(text)
	if found := shown.FindSubmatch(text); found != nil {
		part = string(found[1])
	}
	indent := part[:len(part)-len(strings.TrimLeft(part, " "))]
	return strings.ReplaceAll("\n"+part, "\n"+indent, "\n")[1:]
}
