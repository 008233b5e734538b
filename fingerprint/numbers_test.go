package fingerprint_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/fingerprint"
)

func canonicalWith(t *testing.T, n fingerprint.Numbers, body string) string {
	t.Helper()
	got, err := fingerprint.Fields{Numbers: n}.Canonical([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return string(got)
}

// Seen to fail with appendExact without the trimming at either end, without the sign of exponents, and with -0 told
// from 0.
func TestNumbersByValue(t *testing.T) {
	for _, c := range []struct{ number, want string }{
		{"1", "1"},
		{"1.0", "1"},
		{"10e-1", "1"},
		{"0.1E1", "1"},
		{"1e0", "1"},
		{"100", "1e2"},
		{"1e+002", "1e2"},
		{"-1.50", "-15e-1"},
		{"0", "0"},
		{"-0.00e7", "0"},
		{"0.001", "1e-3"},
		{"9007199254740993", "9007199254740993"},
		{"1e999999999", "1e999999999"},
		{"10e999999998", "1e999999999"},
		{"1e-0", "1"},
		{"1e9999999999999999", "1e9999999999999999"},
		{"10e9999999999999999", "10e9999999999999999"},
	} {
		if got := canonicalWith(t, fingerprint.ByValue, c.number); got != c.want {
			t.Errorf("%s: got %s, want %s", c.number, got, c.want)
		}
	}
	for _, pair := range [][2]string{
		{`{"a":null}`, `{}`}, {`[1,2]`, `[2,1]`}, {`"1"`, `1`}, {`9007199254740993`, `9007199254740992`}, {`1`, `-1`},
	} {
		if a := canonicalWith(t, fingerprint.ByValue, pair[0]); a == canonicalWith(t, fingerprint.ByValue, pair[1]) {
			t.Errorf("%v are both %s", pair, a)
		}
	}
	a := canonicalWith(t, fingerprint.ByValue, `{"a":1.0,"b":[true]}`)
	if b := canonicalWith(t, fingerprint.ByValue, ` {"b":[true], "a":1}`); a != b {
		t.Errorf("%s, %s", a, b)
	}
}

// The numbers of RFC 8785, appendix B, and of ECMAScript's thresholds between the two ways to write one.
//
// Seen to fail with 'g' in place of 'f', without the thresholds, with the zero in e-09 left, and with a number that is
// too large written as it is.
func TestNumbersAsDoubles(t *testing.T) {
	for _, c := range []struct{ number, want string }{
		{"0", "0"},
		{"-0", "0"},
		{"-0.0", "0"},
		{"5e-324", "5e-324"},
		{"1.7976931348623157e308", "1.7976931348623157e+308"},
		{"9007199254740993", "9007199254740992"},
		{"295147905179352830000", "295147905179352830000"},
		{"9.999999999999997e22", "9.999999999999997e+22"},
		{"1e23", "1e+23"},
		{"999999999999999900000", "999999999999999900000"},
		{"1e21", "1e+21"},
		{"9.999999999999997e-7", "9.999999999999997e-7"},
		{"0.000001", "0.000001"},
		{"333333333.3333332", "333333333.3333332"},
		{"-0.0000033333333333333333", "-0.0000033333333333333333"},
		{"1424953923781206.2", "1424953923781206.2"},
		{"1.50", "1.5"},
		{"1E2", "100"},
		{"1e-400", "0"},
	} {
		if got := canonicalWith(t, fingerprint.AsDoubles, c.number); got != c.want {
			t.Errorf("%s: got %s, want %s", c.number, got, c.want)
		}
	}
	fields := fingerprint.Fields{Numbers: fingerprint.AsDoubles}
	if got, err := fields.Canonical([]byte(`{"a":[1e999]}`)); err == nil {
		t.Errorf("1e999 is %s", got)
	}
	fields.Exclude = []string{"/a"}
	if got, err := fields.Canonical([]byte(`{"a":[1e999],"b":1.0}`)); err != nil || string(got) != `{"b":1}` {
		t.Errorf("a number that is left out: %s, %v", got, err)
	}
	if err := (fingerprint.Fields{Numbers: 3}).Validate(); err == nil {
		t.Error("an unknown way to compare numbers is accepted")
	}
}

// A number that a request holds must not cost more than its letters. Seen to fail with zeros written
// out instead of an exponent: the test ran out of memory.
func TestNumbersCostNoMoreThanTheirLetters(t *testing.T) {
	body := "[" + strings.Repeat("1e999999999,-1e-999999999,", 10_000) + "1]"
	many := strings.Repeat("9", 1<<20) + "." + strings.Repeat("0", 1<<20)
	for _, n := range []fingerprint.Numbers{fingerprint.ByValue, fingerprint.AsDoubles} {
		for _, text := range []string{body, many} {
			got, err := fingerprint.Fields{Numbers: n}.Canonical([]byte(text))
			if err == nil && len(got) > len(text) {
				t.Errorf("%d bytes became %d", len(text), len(got))
			}
		}
	}
}

// Equal values are written alike, and nothing else is.
func FuzzNumbersByValue(f *testing.F) {
	f.Add("1.0", "1")
	f.Add("-12.30e-5", "0.000123")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 60 || strings.ContainsAny(a+b, "\"[{tfn") {
			return
		}
		if !json.Valid([]byte(a)) || !json.Valid([]byte(b)) {
			return
		}
		x, okX := new(big.Rat).SetString(strings.TrimSpace(a))
		y, okY := new(big.Rat).SetString(strings.TrimSpace(b))
		if !okX || !okY {
			return
		}
		same := canonicalWith(t, fingerprint.ByValue, a) == canonicalWith(t, fingerprint.ByValue, b)
		if same != (x.Cmp(y) == 0) {
			t.Errorf("%s and %s: equal is %v", a, b, same)
		}
	})
}

// Seen to fail with the comma left out, and with a member that is there added a second time.
func TestSetJSON(t *testing.T) {
	for _, c := range []struct{ body, pointer, value, want string }{
		{`{"a":1}`, "/replayed", "true", `{"replayed":true,"a":1}`},
		{` { } `, "/replayed", "true", ` {"replayed":true } `},
		{`{"a" : 1,"replayed": false }`, "/replayed", "true", `{"a" : 1,"replayed": true }`},
		{`{"a":{"b":[]}}`, "/a/x~1\"", `"y"`, `{"a":{"x/\"":"y","b":[]}}`},
		{`[1]`, "/replayed", "true", `[1]`},
		{`{"a":1}`, "/b/c", "true", `{"a":1}`},
		{`{"a":1}`, "/a/c", "true", `{"a":1}`},
		{`{"a":1}`, "", "2", `2`},
	} {
		got, err := fingerprint.SetJSON([]byte(c.body), c.pointer, []byte(c.value))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.body, got, err, c.want)
		}
	}
	for _, c := range [][3]string{{`{`, "/a", "1"}, {`{}`, "/a", "no"}, {`{}`, "a", "1"}, {`{"a":1,"a":2}`, "/a", "1"}} {
		if got, err := fingerprint.SetJSON([]byte(c[0]), c[1], []byte(c[2])); err == nil {
			t.Errorf("%q is accepted: %s", c, got)
		}
	}
}
