package keytext_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/keytext"
)

// Seen to fail with the time written one byte too far to the right.
func TestRandomUUID7(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	key := keytext.RandomUUID7()
	made, ok := keytext.UUID7Time(key)
	_, reason := keytext.Syntax{Form: keytext.UUID7}.ParseBare(key)
	if !ok || reason != "" || made.Before(before) || made.After(time.Now()) {
		t.Errorf("%s: %v, %v, %s", key, made, ok, reason)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		syntax      keytext.Syntax
		lines       []string
		key, reason string
	}{
		{keytext.Syntax{}, []string{"k"}, "k", ""},
		{keytext.Syntax{}, []string{` "k";v=1 `}, "k", ""},
		{keytext.Syntax{}, []string{`"a\"b"`}, `a"b`, ""},
		{keytext.Syntax{}, nil, "", keytext.Empty},
		{keytext.Syntax{}, []string{`""`}, "", keytext.Empty},
		{keytext.Syntax{}, []string{"a", "b"}, "", keytext.Multiple},
		{keytext.Syntax{}, []string{`"k`}, "", keytext.Malformed},
		{keytext.Syntax{}, []string{"a,b"}, "", keytext.Charset},
		{keytext.Syntax{Max: 2}, []string{"abc"}, "", keytext.Length},
		{keytext.Syntax{Form: keytext.StringOnly}, []string{"k"}, "", keytext.Malformed},
		{keytext.Syntax{Form: keytext.Bare}, []string{`"k"`}, `"k"`, ""},
		{
			keytext.Syntax{Form: keytext.UUID4},
			[]string{"F81D4FAE-7DEC-41D0-A765-00A0C91E6BF6"},
			"f81d4fae-7dec-41d0-a765-00a0c91e6bf6", "",
		},
		{keytext.Syntax{Form: keytext.UUID4}, []string{"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}, "", keytext.Format},
		{keytext.Syntax{Pattern: regexp.MustCompile("[a-z]+")}, []string{"ab1"}, "", keytext.Format},
		{keytext.Syntax{Pattern: regexp.MustCompile("a|a-b")}, []string{"a-b"}, "a-b", ""},
		{keytext.Syntax{Pattern: regexp.MustCompile("[a-z]+?")}, []string{"ab"}, "ab", ""},
	} {
		if key, reason := c.syntax.Parse(c.lines); key != c.key || reason != c.reason {
			t.Errorf("%q: %q, %q; want %q, %q", c.lines, key, reason, c.key, c.reason)
		}
	}
}

// Whatever is sent, a key is text that can be sent again in quotes and is then the same key.
func FuzzParse(f *testing.F) {
	for _, line := range []string{"k", `"k"`, `"a\\b\""`, `"k";a=1;b=?0;c=:aGk=:;d=%"f%c3%bc"`, "a,b", `"`, ""} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, reason := keytext.Syntax{}.Parse([]string{line})
		if (key == "") != (reason != "") || len(key) > 255 {
			t.Fatalf("%q: %q, %q", line, key, reason)
		}
		if reason != "" {
			return
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, reason := (keytext.Syntax{}).Parse([]string{quoted}); again != key {
			t.Errorf("%q is %q; in quotes %q, %s", line, key, again, reason)
		}
	})
}

func TestRandomUUIDsAreOfVersion4(t *testing.T) {
	syntax := keytext.Syntax{Form: keytext.UUID4}
	a, b := keytext.RandomUUID(), keytext.RandomUUID()
	if a == b || syntax.Check(a) != "" || syntax.Check(b) != "" {
		t.Errorf("%s, %s", a, b)
	}
}

// Example of RFC 9562, appendix A.6: 22 February 2022, 19:22:22 UTC.
func TestUUID7Time(t *testing.T) {
	made, ok := keytext.UUID7Time("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")
	if want := time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC); !ok || !made.Equal(want) {
		t.Errorf("%v, %v, want %v", made, ok, want)
	}
	for _, text := range []string{"", "order-17", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"} {
		if _, ok := keytext.UUID7Time(text); ok {
			t.Errorf("%q tells when it was made", text)
		}
	}
}
