package architecture

import (
	"os"
	"strings"
	"testing"
)

// The package comment shows code that Example runs, and folders and pages that exist. Seen to fail with a word of the
// code changed, and with a folder and a page renamed.
func TestPackageComment(t *testing.T) {
	_, example, _ := strings.Cut(read(t, "example_test.go"), "func Example() {")
	lines, paths := 0, 0
	for line := range strings.Lines(read(t, "doc.go")) {
		line = strings.TrimSuffix(line, "\n")
		code, isCode := strings.CutPrefix(line, "//\t")
		first, _, isRow := strings.Cut(code, "  ")
		if isCode && isRow && !strings.Contains(first, "=") && !strings.HasSuffix(first, ":") &&
			!strings.HasPrefix(first, "\t") {
			paths++
			if _, err := os.Stat(first); err != nil {
				t.Error(err)
			}
			continue
		}
		if isCode {
			lines++
			found := false
			if _, example, found = strings.Cut(example, strings.TrimSpace(code)+"\n"); !found {
				t.Errorf("Example does not have, in its place: %s", code)
			}
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if strings.HasPrefix(word, "docs/") {
				paths++
				if _, err := os.Stat(strings.TrimRight(word, ",.")); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if lines < 9 || paths < 15 {
		t.Errorf("%d lines of code and %d paths found; are all of them seen?", lines, paths)
	}
}
