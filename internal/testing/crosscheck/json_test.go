package crosscheck

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/retrysafe/retrysafe/fingerprint"
)

func TestCanonicalJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkCanonical(t, []byte(jsonText().Draw(t, "body"))) })
}

func TestJSONField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkFields(t, []byte(jsonText().Draw(t, "body"))) })
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, body := range []string{
		`{"b":[true,null,-1.50e+3],"a":{"":"\u0061\ud83d\ude00"}}`, `{"a":1,"a":2}`, `"\ud83d"`, "\"\xff\"",
		"\ufeff{}", `{}x`, ``, ` 01`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if depth(body) > 1000 {
			return // jsontext's limit is 10,000
		}
		checkCanonical(t, body)
		checkFields(t, body)
	})
}

type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// checkCanonical compares our canonical form with that of jsontext, which is configured to keep numbers unchanged.
func checkCanonical(t tester, body []byte) {
	t.Helper()
	got, err := fingerprint.CanonicalJSON(body)
	want, theirs := canonicalize(body)
	if (err == nil) != (theirs == nil) {
		t.Fatalf("%q: %v; jsontext: %v", body, err, theirs)
	}
	if err == nil && !bytes.Equal(got, want) {
		t.Errorf("%q: %q; jsontext: %q", body, got, want)
	}
}

func canonicalize(body []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(body))
	err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return v, err
}

// checkFields looks up each value of body by the pointer that jsontext gives it.
func checkFields(t tester, body []byte) {
	t.Helper()
	if _, err := canonicalize(body); err != nil || len(body) > 2000 {
		return
	}
	for pointer, want := range fields(t, body) {
		text, ok, err := fingerprint.JSONField(body, pointer)
		if err != nil || !ok || text != want.text {
			t.Errorf("%q at %q: %q, %v, %v; jsontext: %q", body, pointer, text, ok, err, want.text)
		}
		alone, err := fingerprint.Fields{Include: []string{pointer}}.Canonical(body)
		if suffix := ":" + want.canonical + "}"; err != nil || !strings.HasSuffix(string(alone), suffix) {
			t.Errorf("%q with only %q: %s, %v; want %s at its end", body, pointer, alone, err, suffix)
		}
	}
}

type field struct{ text, canonical string }

// fields returns the values in body by their pointers, as jsontext reads them.
func fields(t tester, body []byte) map[string]field {
	found := map[string]field{}
	tokens := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		// A second decoder reads the whole value into which the first one descends.
		start := int(tokens.InputOffset())
		token, err := tokens.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return found
		case err != nil:
			t.Fatalf("%q: jsontext: %v", body, err)
		}
		kind, length := tokens.StackIndex(tokens.StackDepth())
		isName := kind == '{' && length%2 == 1
		if k := token.Kind(); k == '}' || k == ']' || k != '{' && k != '[' && isName {
			continue
		}
		found[string(tokens.StackPointer())] = readField(t, body[start:])
	}
}

// readField reads the value after white space and one comma or colon.
func readField(t tester, rest []byte) field {
	value, err := jsontext.NewDecoder(bytes.NewReader(bytes.TrimLeft(rest, " \t\r\n,:"))).ReadValue()
	if err != nil {
		t.Fatalf("%q: jsontext: %v", rest, err)
	}
	canonical, err := canonicalize(value)
	if err != nil {
		t.Fatalf("%q: jsontext: %v", value, err)
	}
	text := string(canonical)
	if value.Kind() == '"' {
		unquoted, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			t.Fatalf("%q: jsontext: %v", value, err)
		}
		text = string(unquoted)
	}
	return field{text: text, canonical: string(canonical)}
}

// depth returns an upper limit of the nesting depth of body.
func depth(body []byte) int { return bytes.Count(body, []byte("[")) + bytes.Count(body, []byte("{")) }
