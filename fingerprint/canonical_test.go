package fingerprint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/fingerprint"
)

func canonical(t *testing.T, body string) string {
	t.Helper()
	got, err := fingerprint.CanonicalJSON([]byte(body))
	if err != nil {
		t.Fatalf("CanonicalJSON(%q): %v", body, err)
	}
	return string(got)
}

// Seen to fail with the sorting, the unescaping, the escaping and the skipping of white space taken out, each.
func TestCanonicalJSONIsOneFormForAllSpellings(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"order":             {`{"b":1,"a":2}`, `{"a":2,"b":1}`},
		"order inside":      {`[{"b":{"d":1,"c":2},"a":3}]`, `[{"a":3,"b":{"c":2,"d":1}}]`},
		"elements stay":     {`[3,1,2]`, `[3,1,2]`},
		"white space":       {" {\n\t\"a\" : [ 1 ,\r\n2 ] } ", `{"a":[1,2]}`},
		"space inside":      {`" a  b "`, `" a  b "`},
		"empty":             {`{"o":{ },"a":[ ],"s":""}`, `{"a":[],"o":{},"s":""}`},
		"escaped letter":    {`"\u0061"`, `"a"`},
		"escaped name":      {`{"b":1,"\u0061":2}`, `{"a":2,"b":1}`},
		"escaped slash":     {`"a\/b"`, `"a/b"`},
		"short escapes":     {`"\"\\\b\f\n\r\t"`, `"\"\\\b\f\n\r\t"`},
		"long escapes":      {`"\u0022\u005C\u0008\u000c\u000A\u000d\u0009"`, `"\"\\\b\f\n\r\t"`},
		"control character": {`"\u0000\u001F"`, `"\u0000\u001f"`},
		"no escapes":        {`"\u007f\u00e9\u2028<>&"`, "\"\u007fé\u2028<>&\""},
		"surrogate pair":    {`"\uD83D\uDE00"`, `"😀"`},
		"replacement char":  {`"\ufffd"`, "\"\ufffd\""},
		"literals":          {`[true,false,null]`, `[true,false,null]`},
		"UTF-16 order": {
			"{\"\ufb33\":1,\"😀\":2,\"\u00f6\":3,\"\\r\":4,\"1\":5,\"\":6}",
			"{\"\":6,\"\\r\":4,\"1\":5,\"ö\":3,\"😀\":2,\"\ufb33\":1}",
		},
		"prefixes":           {`{"ab":1,"a":2,"abc":3}`, `{"a":2,"ab":1,"abc":3}`},
		"no value like text": {`["1",1,"null",null]`, `["1",1,"null",null]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := canonical(t, c.body)
			if got != c.want {
				t.Errorf("CanonicalJSON(%q) = %q, want %q", c.body, got, c.want)
			}
			if again := canonical(t, got); again != got {
				t.Errorf("the canonical form of %q is %q", got, again)
			}
		})
	}
}

// Seen to fail with numbers read as float64, and with strings and numbers written alike.
func TestCanonicalJSONKeepsDifferencesApart(t *testing.T) {
	for _, pair := range [][2]string{
		{`9007199254740993`, `9007199254740992`},
		{`1.0`, `1`},
		{`1e2`, `100`},
		{`1e2`, `1E2`},
		{`-0`, `0`},
		{`0.1`, `0.10`},
		{`1e999`, `1e998`},
		{`"1"`, `1`},
		{`"null"`, `null`},
		{`{}`, `[]`},
		{`[]`, `[[]]`},
		{`[1,[2]]`, `[[1],2]`},
		{`{"a":null}`, `{}`},
		{`{"a":1}`, `{"A":1}`},
		{"\"\u00e9\"", "\"e\u0301\""}, // composed and decomposed: no normalisation
		{`"a,\"b"`, `["a","b"]`},
	} {
		if a, b := canonical(t, pair[0]), canonical(t, pair[1]); a == b {
			t.Errorf("%s and %s are both %s", pair[0], pair[1], a)
		}
	}
}

// Seen to fail with each of the checks taken out, one at a time.
func TestCanonicalJSONRefusesWhatCanBeReadInTwoWays(t *testing.T) {
	for name, body := range map[string]string{
		"no value":                 ``,
		"only white space":         " \n",
		"two values":               `1 2`,
		"two objects":              `{}{}`,
		"trailing garbage":         `{"a":1}x`,
		"trailing zero byte":       "{}\x00",
		"byte order mark":          "\ufeff{}",
		"other white space":        "\u00a0{}",
		"form feed":                "\f{}",
		"duplicate name":           `{"a":1,"a":2}`,
		"equal duplicates":         `{"a":1,"a":1}`,
		"duplicate after escape":   `{"a":1,"\u0061":2}`,
		"duplicate empty name":     `{"":1,"":2}`,
		"duplicate far apart":      `{"a":1,"b":2,"c":3,"a":4}`,
		"duplicate deep inside":    `[{"x":{"a":1,"a":2}}]`,
		"high surrogate alone":     `"\ud83d"`,
		"high surrogate then text": `"\ud83dxxxxxx"`,
		"high surrogate then n":    `"\ud83d\n12345"`,
		"high surrogate then hex":  `"\ud83dxxde00"`,
		"high surrogate twice":     `"\ud83d\ud83d"`,
		"low surrogate alone":      `"\ude00"`,
		"surrogate then letter":    `"\ud83d\u0061"`,
		"surrogate in a name":      `{"\ud83d":1}`,
		"invalid UTF-8":            "\"\xff\"",
		"overlong UTF-8":           "\"\xc0\xaf\"",
		"surrogate in UTF-8":       "\"\xed\xa0\x80\"",
		"truncated UTF-8":          "\"\xe2\x82\"",
		"control character":        "\"a\nb\"",
		"zero byte in string":      "\"a\x00b\"",
		"unknown escape":           `"\x41"`,
		"escape at the end":        `"\`,
		"short hex":                `"\u12"`,
		"hex with a sign":          `"\u+123"`,
		"hex with an underscore":   `"\u1_23"`,
		"open string":              `"a`,
		"open object":              `{"a":1`,
		"open array":               `[1`,
		"wrong end of object":      `{"a":1]`,
		"wrong end of array":       `[1}`,
		"comma at the end":         `[1,]`,
		"comma at the end, object": `{"a":1,}`,
		"comma at the beginning":   `[,1]`,
		"no comma":                 `[1 2]`,
		"no colon":                 `{"a" 1}`,
		"no name":                  `{1:2}`,
		"no member value":          `{"a":}`,
		"single quotes":            `{'a':1}`,
		"comment":                  `{}//`,
		"leading zero":             `01`,
		"leading zero, negative":   `-01`,
		"plus":                     `+1`,
		"only minus":               `-`,
		"point at the end":         `1.`,
		"point at the beginning":   `.5`,
		"no exponent":              `1e`,
		"no exponent digits":       `1e+`,
		"hex number":               `0x10`,
		"NaN":                      `NaN`,
		"literal in capitals":      `True`,
		"literal too long":         `nullx`,
		"literal too short":        `tru`,
		"too deep":                 strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
		"too deep, objects":        strings.Repeat(`{"a":`, 1001) + `1` + strings.Repeat("}", 1001),
		"much too deep":            strings.Repeat("[", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fingerprint.CanonicalJSON([]byte(body))
			if err == nil || got != nil {
				t.Errorf("CanonicalJSON(%.40q) = %.40q, %v; want an error", body, got, err)
			}
		})
	}
}

func TestCanonicalJSONAllowsDepth(t *testing.T) {
	deep := strings.Repeat("[", 999) + `{"b":1,"a":2}` + strings.Repeat("]", 999)
	want := strings.Repeat("[", 999) + `{"a":2,"b":1}` + strings.Repeat("]", 999)
	if got := canonical(t, deep); got != want {
		t.Errorf("got %.20q…", got)
	}
	// Siblings are not deeper than each other.
	canonical(t, "["+strings.Repeat(`[{}],`, 2000)+"1]")
}

func TestCanonicalJSONLeavesTheBodyAlone(t *testing.T) {
	body := []byte(` {"b":"\u0061","a":1} `)
	before := string(body)
	got, err := fingerprint.CanonicalJSON(body)
	if err != nil {
		t.Fatal(err)
	}
	clear(got[:cap(got)])
	if string(body) != before {
		t.Errorf("the body became %q", body)
	}
}

// The limit is far from what it takes. Seen to fail with members sorted by insertion.
func TestCanonicalJSONTakesNoQuadraticTime(t *testing.T) {
	const n = 1 << 18
	names := new(strings.Builder)
	for i := range n / 4 {
		names.WriteString(`,"` + strings.Repeat("x", 8) + string(rune(0x10000+i)) + `":0`)
	}
	for name, body := range map[string]string{
		"spaces":       "{" + strings.Repeat(" ", n) + "}",
		"elements":     "[" + strings.Repeat("1,", n) + "1]",
		"members":      "{" + names.String()[1:] + "}",
		"escapes":      `"` + strings.Repeat(`\u0001`, n) + `"`,
		"nested":       "[" + strings.Repeat(strings.Repeat("[", 900)+strings.Repeat("]", 900)+",", 100) + "1]",
		"nested names": "[" + strings.Repeat(strings.Repeat(`{"b":`, 900)+"1"+strings.Repeat(`,"a":2}`, 900)+",", 20) + "1]",
		"long names":   `{"` + strings.Repeat("x", n) + `1":1,"` + strings.Repeat("x", n) + `0":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			canonical(t, body)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%d bytes took %v", len(body), took)
			}
		})
	}
}

// Seen to fail with the two prefixes taken out, and with the error ignored.
func TestJSONPart(t *testing.T) {
	all := fingerprint.Fields{}
	part := func(body string) string { return fingerprint.JSONPart([]byte(body), all) }
	for _, same := range [][2]string{
		{`{"a":1,"b":2}`, `{ "b":2, "a":1 }`},
		{`not JSON`, `not JSON`},
		{``, ``},
	} {
		if part(same[0]) != part(same[1]) {
			t.Errorf("%q and %q differ", same[0], same[1])
		}
	}
	different := []string{
		``, ` `, `null`, `"null"`, `{}`, `{"a":2}`, `{"a":1,"a":2}`, `{"a":2,"a":1}`, `{"a":1,"a":2} `, "\ufeff{}",
		"\xff", "\"\xff\"", "\"\xfe\"", "\"\ufffd\"", `"\ud83d"`, `"\ude00"`, `x`, part(`{}`), part(``), part(`x`),
		`9007199254740993`, `9007199254740992`, `1.0`, `1`,
	}
	seen := map[string]string{}
	for _, body := range different {
		if other, ok := seen[part(body)]; ok {
			t.Errorf("%q and %q have one part, %q", body, other, part(body))
		}
		seen[part(body)] = body
	}
}

func TestJSONPartOfFields(t *testing.T) {
	amount := fingerprint.Fields{Include: []string{"/amount"}}
	a := fingerprint.JSONPart([]byte(`{"amount":1,"at":"now"}`), amount)
	if b := fingerprint.JSONPart([]byte(`{"at":"later","amount":1}`), amount); a != b {
		t.Errorf("%q differs from %q", a, b)
	}
	if b := fingerprint.JSONPart([]byte(`{"amount":2,"at":"now"}`), amount); a == b {
		t.Errorf("two amounts have one part, %q", a)
	}
	invalid := fingerprint.Fields{Include: []string{"amount"}}
	if got, want := fingerprint.JSONPart([]byte(`{}`), invalid), `raw:{}`; got != want {
		t.Errorf("with invalid fields: %q, want %q", got, want)
	}
}
