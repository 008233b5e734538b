package httpkey_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpkey"
)

func TestParseKey(t *testing.T) {
	const uuid, uuid4 = "01890000-0000-7000-8000-000000000000", "8e03978e-40d5-43dd-bc93-6894a57f9324"
	var (
		lenient = httpkey.Syntax{}
		strict  = httpkey.Syntax{Form: httpkey.StringOnly}
		bare    = httpkey.Syntax{Form: httpkey.Bare}
		text    = httpkey.Syntax{Form: httpkey.Text}
		hex     = httpkey.Syntax{Pattern: regexp.MustCompile("[0-9a-f]+"), Min: 4, Max: 8}
	)
	for _, c := range []struct {
		syntax      httpkey.Syntax
		value, want string
		reason      string
	}{
		{lenient, "k", "k", ""},
		{lenient, `"k"`, "k", ""},
		{lenient, " \t\"k\" ", "k", ""},
		{lenient, `"a b"`, "a b", ""},
		{lenient, `"a\"b\\c"`, `a"b\c`, ""},
		{lenient, `"a\x"`, "", "syntax"},
		{lenient, `"a`, "", "syntax"},
		{lenient, `"a\`, "", "syntax"},
		{lenient, `"a"b`, "", "syntax"},
		{lenient, `"a", "b"`, "", "syntax"},
		{lenient, "\"a\x7f\"", "", "syntax"},
		{lenient, "\"é\"", "", "syntax"},
		{lenient, `"k";v=1;w;x=?0;y="s";z=:AQ==:;a=tok/en;b=-1.5;c=@17;d=%"f%c3%bc"`, "k", ""},
		{lenient, `"k"; v=1`, "k", ""},
		{lenient, `"k" ;v=1`, "", "syntax"},
		{lenient, `"k";`, "", "syntax"},
		{lenient, `"k";V=1`, "", "syntax"},
		{lenient, `"k";v=`, "", "syntax"},
		{lenient, `"k";v=1.`, "", "syntax"},
		{lenient, `"k";v=1234567890123456`, "", "syntax"},
		{lenient, `"k";v=@1.5`, "", "syntax"},
		{lenient, `"k";v=?2`, "", "syntax"},
		{lenient, `"k";v=:A`, "", "syntax"},
		{lenient, `"k";v=%"%ff"`, "", "syntax"},
		{lenient, `a"b`, "", "charset"},
		{lenient, "a;b", "", "charset"},
		{lenient, `a\b`, "", "charset"},
		{lenient, "", "", "empty"},
		{lenient, `""`, "", "empty"},
		{lenient, strings.Repeat("x", 255), strings.Repeat("x", 255), ""},
		{lenient, strings.Repeat("x", 256), "", "length"},
		{lenient, `"` + strings.Repeat("x", 255) + `"`, strings.Repeat("x", 255), ""},
		{strict, "k", "", "syntax"},
		{strict, `"k"`, "k", ""},
		{bare, `"k"`, `"k"`, ""},
		{bare, `""`, "", "empty"},
		{bare, "a,b;c", "a,b;c", ""},
		{bare, "a b", "", "charset"},
		{text, "Bestellung 17 für ü", "Bestellung 17 für ü", ""},
		{text, "a\x00b", "", "charset"},
		{text, "a\xffb", "", "charset"},
		{httpkey.Syntax{Form: httpkey.UUID}, uuid, uuid, ""},
		{httpkey.Syntax{Form: httpkey.UUID}, strings.ToUpper(uuid), uuid, ""}, // seen to fail without ToLower
		{httpkey.Syntax{Form: httpkey.UUID}, `"` + uuid + `"`, uuid, ""},
		{httpkey.Syntax{Form: httpkey.UUID}, uuid[1:], "", "format"},
		{httpkey.Syntax{Form: httpkey.UUID}, strings.Replace(uuid, "-", "0", 1), "", "format"},
		{httpkey.Syntax{Form: httpkey.UUID4}, uuid, "", "format"},
		{httpkey.Syntax{Form: httpkey.UUID4}, uuid4, uuid4, ""},
		{hex, "abcd", "abcd", ""},
		{hex, "abcg", "", "format"},
		{hex, "abc", "", "length"},
	} {
		got, err := c.syntax.ParseHeader([]string{c.value})
		reason := ""
		if e := new(httpkey.Error); errors.As(err, &e) {
			reason = e.Reason
		}
		if reason != c.reason || err == nil && got != c.want {
			t.Errorf("%v: key %q is %q, %q, want %q, %q", c.syntax, c.value, got, reason, c.want, c.reason)
		}
	}
	if _, err := lenient.ParseHeader([]string{"a", "a"}); err == nil ||
		err.Error() != "httpkey: malformed key: multiple" {
		t.Errorf("two lines: %v", err)
	}
	if _, err := lenient.ParseHeader(nil); err == nil {
		t.Error("no line is a key")
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"k", `"k"`, `"a\"b";x=1`, "", `"`, `"a";b=%"%c3%bc"`, "\xff", `"k";a=:AQ==:`} {
		f.Add(s, uint8(1))
	}
	f.Fuzz(func(t *testing.T, value string, form uint8) {
		syntax := httpkey.Syntax{Form: httpkey.Form(form%6) + 1}
		key, err := syntax.ParseHeader([]string{value})
		if err != nil {
			if e := new(httpkey.Error); !errors.As(err, &e) || e.Reason == "" {
				t.Errorf("error %#v", err)
			}
			return
		}
		if len(key) < 1 || len(key) > 255 {
			t.Errorf("key of %d bytes", len(key))
		}
		if syntax.Form == httpkey.Text {
			return
		}
		// What was read, written as a string, is the same key.
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		again, err := (httpkey.Syntax{Form: httpkey.StringOnly}).ParseHeader([]string{quoted})
		if err != nil || again != key {
			t.Errorf("%q was read as %q, and that, quoted, as %q, %v", value, key, again, err)
		}
	})
}
