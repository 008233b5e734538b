package yamlfile

import (
	"errors"
	"slices"
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
	shared  string
}

func read(source string, finish func(r *Reader)) (settings, error) {
	var s settings
	err := Read("file.yaml", []byte(source), "the file", map[string]Field{
		"word": Scalar(&s.word, Choice("red", "green")), "wait": Scalar(&s.wait, Duration),
		"numbers": List(&s.numbers, Between(1, 9)),
		"secret":  Secretly(Scalar(&s.secret, Filled)),
		"shared":  InsteadOfAliases("write it in common:", Scalar(&s.shared, Filled)),
		"inner":   func(r *Reader, n ast.Node) { r.Mapping(n, "inner", map[string]Field{"on": Scalar(new(bool), Bool)}) },
	}, finish)
	return s, err
}

func TestValues(t *testing.T) {
	s, err := read("\uFEFFword: green\nwait: 2d\nnumbers: [1, 9]\nsecret: |\n  a\n  b\ninner: {on: true}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.word != "green" || s.wait != 48*time.Hour || len(s.numbers) != 2 || s.secret != "a\nb\n" {
		t.Errorf("got %+v", s)
	}
}

// Everything that is wrong is said at once, in the order of the lines, and what is missing last.
func TestFaults(t *testing.T) {
	_, err := read("numbers: [0, x]\nwodr: red\nword: bleu\ninner: {on: maybe}\nsecret: [s3cret]\n",
		func(r *Reader) { r.Missing("more is missing", "write more") })
	const want = `file.yaml:1:11: "0" is not a number from 1 to 9
     1 | numbers: [0, x]
       |           ^
file.yaml:1:14: "x" is not a number from 1 to 9
     1 | numbers: [0, x]
       |              ^
file.yaml:2:1: the file has no field "wodr"
     2 | wodr: red
       | ^
       did you mean "word"?
file.yaml:3:7: "bleu" is not a known value
     3 | word: bleu
       |       ^
       write one of: red, green
file.yaml:4:13: "maybe" is neither true nor false
     4 | inner: {on: maybe}
       |             ^
       write true or false
file.yaml:5:9: this must be a single value
file.yaml: more is missing
       write more`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// Seen to fail with emptyDocument taken out: the files with two lines --- in a row were read without what follows them.
func TestWhatIsNoMapping(t *testing.T) {
	for source, says := range map[string]string{
		"- a\n": "must be a mapping", "text\n": "must be a mapping", "a: b: c\n": "file.yaml:1:",
		"word: *x\n": "write it out", "shared: *x\nword: *x\n": "in common:\nfile.yaml:2:",
		"word: red\n---\nword: green\n": "second document", "word:\n\tred\n": "spaces", "word:\n": "leave the line out",
		"---\n# empty\n---\nword: red\n":     "file.yaml:3:1: a second document",
		"word: red\n---\n---\nword: green\n": "file.yaml:3:1: a second document",
		strings.Repeat("#", maxFile+1):       "it may have",
	} {
		if _, err := read(source, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: got %v, want %q", source, err, says)
		}
	}
	if _, err := read("", nil); err != nil {
		t.Errorf("an empty file is one: %v", err)
	}
}

// Seen to fail with refused values kept.
func TestAListLeavesOutWhatIsRefused(t *testing.T) {
	s, err := read("numbers: [1, x, [2], 3]\n", nil)
	if err == nil || !slices.Equal(s.numbers, []int{1, 3}) {
		t.Errorf("got %v, %v", s.numbers, err)
	}
}

// Seen to fail with the look for the same fault taken out.
func TestTheSameFaultIsToldOnce(t *testing.T) {
	_, err := read("word: red\n", func(r *Reader) {
		for _, line := range []int{1, 1, 2} {
			r.FaultAt(Position{Line: line, Column: 1}, "it is wrong", "")
		}
	})
	var faults *Faults
	if !errors.As(err, &faults) || len(faults.All) != 2 {
		t.Errorf("got %v", err)
	}
}

// Seen to fail with days that are multiplied before they are bounded.
func TestDurationsThatAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"soon": "is not a duration", "10": "is not a duration", "d": "is not a duration", "0s": "not more than zero",
		"-1s":                   "not more than zero",
		"-9223372036854775807d": "not more than zero", "36501d": "hundred years", "999999d": "hundred years",
		"9223372036854775807d": "hundred years", "999999h": "hundred years",
	} {
		if d, err := Duration(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, %v, want %q", text, d, err, says)
		}
	}
}

// Seen to fail with what to write instead left out.
func TestForFlag(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{Wrong("the value is empty", "write a value"), "--word: the value is empty: write a value"},
		{Wrong("it is too much", ""), "--word: it is too much"},
		{errors.New("it is bad"), "--word: it is bad"},
	} {
		if got := ForFlag("--word", c.err).Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"none", "slow", "rate_limit", "uuid"}
	for word, want := range map[string]string{
		"slwo": "slow", "rate-limit": "rate_limit", "RateLimit": "rate_limit",
		"mine": "", "id": "", "": "", "uid": "uuid",
	} {
		if got := Nearest(word, words); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
