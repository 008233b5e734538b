package yamlfile

import (
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/ast"
)

type settings struct {
	word    string
	wait    time.Duration
	numbers []int
	secret  string
}

func read(source string, finish func(r *Reader)) (settings, error) {
	var s settings
	err := Read("file.yaml", []byte(source), "the file", map[string]Field{
		"word": Scalar(&s.word, Choice("red", "green")), "wait": Scalar(&s.wait, Duration), "numbers": List(&s.numbers, Between(1, 9)),
		"secret": Secretly(Scalar(&s.secret, Filled)),
		"inner":  func(r *Reader, n ast.Node) { r.Mapping(n, "inner", map[string]Field{"on": Scalar(new(bool), Bool)}) },
	}, finish)
	return s, err
}

func TestValues(t *testing.T) {
	s, err := read("word: green\nwait: 2d\nnumbers: [1, 9]\nsecret: |\n  a\n  b\ninner: {on: true}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.word != "green" || s.wait != 48*time.Hour || len(s.numbers) != 2 || s.secret != "a\nb\n" {
		t.Errorf("got %+v", s)
	}
}

// Everything that is wrong is said at once, in the order of the lines, and what is missing last.
func TestFaults(t *testing.T) {
	_, err := read("numbers: [0, x]\nwodr: red\nword: bleu\ninner: {on: maybe}\nsecret: [s3cret]\n", func(r *Reader) { r.Missing("more is missing", "write more") })
	const want = `file.yaml:1:11: "0" is no number from 1 to 9
     1 | numbers: [0, x]
       |           ^
file.yaml:1:14: "x" is no number from 1 to 9
     1 | numbers: [0, x]
       |              ^
file.yaml:2:1: the file has no field "wodr"
     2 | wodr: red
       | ^
       did you mean "word"?
file.yaml:3:7: "bleu" is not known here
     3 | word: bleu
       |       ^
       write one of: red, green
file.yaml:4:13: "maybe" is neither true nor false
     4 | inner: {on: maybe}
       |             ^
       write true or false
file.yaml:5:9: a single value is needed here
file.yaml: more is missing
       write more`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestWhatIsNoMapping(t *testing.T) {
	for source, says := range map[string]string{
		"- a\n": "must be a mapping", "text\n": "must be a mapping", "a: b: c\n": "file.yaml:1:", "word: *x\n": "write it out",
		"word: red\n---\nword: green\n": "second document", "word:\n\tred\n": "spaces", "word:\n": "leave the line out",
		strings.Repeat("#", maxFile+1): "it may have",
	} {
		if _, err := read(source, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: got %v, want %q", source, err, says)
		}
	}
	if _, err := read("", nil); err != nil {
		t.Errorf("an empty file is one: %v", err)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"none", "slow", "rate_limit", "uuid"}
	for word, want := range map[string]string{"slwo": "slow", "rate-limit": "rate_limit", "RateLimit": "rate_limit", "mine": "", "id": "", "": "", "uid": "uuid"} {
		if got := Nearest(word, words); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
