package pages

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const page = "text\n```console run=a serve\n$ one 'x\ny'\nout\n$ two \\\n  more # it's\n```\n  ```go file=main.go\n  " +
	"x := 1\n  ```\n" +
	"```sh\n# comment\nthree \"#\"\n```\n"

func read(t *testing.T, text string) ([]Block, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Read(path)
}

func TestRead(t *testing.T) {
	blocks, err := read(t, page)
	if err != nil || len(blocks) != 3 {
		t.Fatalf("got %d blocks, %v; want 3", len(blocks), err)
	}
	a := blocks[0]
	if a.Lang != "console" || a.Run != "a" || !a.Serve || a.Line != 3 {
		t.Errorf("got %+v", a)
	}
	want := []Command{{3, "one 'x\ny'", []string{"out"}}, {6, "two \\\n  more # it's", nil}}
	if got := a.Commands(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if b := blocks[1]; b.File != "main.go" || b.Text != "x := 1\n" {
		t.Errorf("got %+v", b)
	}
	if got := blocks[2].Commands(); len(got) != 1 || got[0].Text != `three "#"` {
		t.Errorf("got %+v", got)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"```go\nx\n":                  "not closed",
		"```go\n```sh\n```\n":         "inside",
		"```go runs=a\nx\n```\n":      `unknown word "runs=a"`,
		"```go run=a served\n```\n":   `unknown word "served"`,
		"```console once file=x\n```": `unknown word "once"`,
	} {
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %s", text, err, says)
		}
	}
}
