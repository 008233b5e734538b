package crosscheck

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"pgregory.net/rapid"

	"github.com/retrysafe/retrysafe/httpkey"
)

func TestParseKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkKey(t, headerText().Draw(t, "line")) })
}

func FuzzParseKey(f *testing.F) {
	for _, line := range []string{
		`"8e03978e-40d5-43dd-bc93-6894a57f9324"`, `"a\"b\\c"`,
		`"a";b;c=1.5;d=?1;e=:YQ==:;f=tok/en;g=@123;h=%"f%c3%bc";i="x"`, `""`, `k`, `"a`, `"a" "b"`,
		`"a", "b"`, `"a";`, `"a"; B`, `"é"`, `"a";b=`, `12`, `?1`, `("a")`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) { checkKey(t, line) })
}

// checkKey compares our parser with httpsfv where a key must be a structured-field string.
func checkKey(t tester, line string) {
	t.Helper()
	got, err := httpkey.Syntax{Form: httpkey.StringOnly, Max: 1024}.ParseHeader([]string{line})
	item, theirs := httpsfv.UnmarshalItem([]string{strings.Trim(line, " \t")})
	if padding := base64.CorruptInputError(0); errors.As(theirs, &padding) {
		return // httpsfv requires the padding of byte sequences, which RFC 9651 (4.2.7) lets senders omit
	}
	want, isString := item.Value.(string)
	valid := theirs == nil && isString && 1 <= len(want) && len(want) <= 1024
	switch {
	case valid != (err == nil):
		t.Fatalf("%q: %v; httpsfv: %#v, %v", line, err, item.Value, theirs)
	case valid && got != want:
		t.Errorf("%q: %q; httpsfv: %q", line, got, want)
	case valid:
		checkLenient(t, line, want)
		return
	}
	var malformed *httpkey.Error
	if !errors.As(err, &malformed) {
		t.Errorf("%q: %v", line, err)
	}
}

// checkLenient checks that a quoted key is parsed the same where bare keys are allowed, and that a bare key is taken
// literally.
func checkLenient(t tester, line, want string) {
	t.Helper()
	syntax := httpkey.Syntax{Max: 1024}
	if got, err := syntax.ParseHeader([]string{line}); err != nil || got != want {
		t.Errorf("%q where bare keys are allowed: %q, %v; want %q", line, got, err, want)
	}
	bare := strings.Trim(want, " ")
	if got, err := syntax.ParseHeader([]string{want}); err == nil && bare[0] != '"' && got != bare {
		t.Errorf("bare %q: %q", want, got)
	}
}

// headerText generates lines that are mostly structured-field strings with parameters.
func headerText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		text := rapid.StringMatching(` {0,2}"([!#-\[\]-~ ]|\\["\\]){0,8}"`).Draw(t, "string")
		for range rapid.IntRange(0, 3).Draw(t, "parameters") {
			text += rapid.StringMatching(`; {0,2}[a-z*][a-z0-9_\-.*]{0,3}`).Draw(t, "parameter") + parameterValue(t)
		}
		if rapid.IntRange(0, 3).Draw(t, "damage") == 0 {
			text = damaged(t, text)
		}
		return text
	})
}

func parameterValue(t *rapid.T) string {
	return rapid.OneOf(
		rapid.Just(""),
		rapid.StringMatching(`=-?[0-9]{1,16}`),
		rapid.StringMatching(`=-?[0-9]{1,13}\.[0-9]{0,4}`),
		rapid.StringMatching(`="([!#-\[\]-~ ]|\\["\\]){0,4}"`),
		rapid.StringMatching(`=[A-Za-z*][A-Za-z0-9!#$%&'*+\-.^_|~:/]{0,4}`),
		rapid.StringMatching(`=:([A-Za-z0-9+/]{4}){0,2}(|[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/][A-Za-z0-9+/][AEI]=):`),
		rapid.StringMatching(`=\?[012]`),
		rapid.StringMatching(`=@-?[0-9]{1,10}`),
		rapid.StringMatching(`=%"([ !#$&-~]|%[0-9a-f]{2}|%c3%bc){0,3}"`),
	).Draw(t, "value")
}
