package httpsafe_test

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpsafe"
)

func TestParseKey(t *testing.T) {
	const uuid, uuid4 = "01890000-0000-7000-8000-000000000000", "8e03978e-40d5-43dd-bc93-6894a57f9324"
	var (
		lenient = httpsafe.KeySyntax{}
		strict  = httpsafe.KeySyntax{Form: httpsafe.StringOnly}
		bare    = httpsafe.KeySyntax{Form: httpsafe.Bare}
		text    = httpsafe.KeySyntax{Form: httpsafe.Text}
		hex     = httpsafe.KeySyntax{Pattern: regexp.MustCompile("[0-9a-f]+"), Min: 4, Max: 8}
	)
	for _, c := range []struct {
		syntax      httpsafe.KeySyntax
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
		{httpsafe.KeySyntax{Form: httpsafe.UUID}, uuid, uuid, ""},
		{httpsafe.KeySyntax{Form: httpsafe.UUID}, strings.ToUpper(uuid), uuid, ""}, // seen to fail without ToLower
		{httpsafe.KeySyntax{Form: httpsafe.UUID}, `"` + uuid + `"`, uuid, ""},
		{httpsafe.KeySyntax{Form: httpsafe.UUID}, uuid[1:], "", "format"},
		{httpsafe.KeySyntax{Form: httpsafe.UUID}, strings.Replace(uuid, "-", "0", 1), "", "format"},
		{httpsafe.KeySyntax{Form: httpsafe.UUID4}, uuid, "", "format"},
		{httpsafe.KeySyntax{Form: httpsafe.UUID4}, uuid4, uuid4, ""},
		{hex, "abcd", "abcd", ""},
		{hex, "abcg", "", "format"},
		{hex, "abc", "", "length"},
	} {
		got, err := c.syntax.ParseHeader([]string{c.value})
		reason := ""
		if e := new(httpsafe.KeyError); errors.As(err, &e) {
			reason = e.Reason
		}
		if reason != c.reason || err == nil && got != c.want {
			t.Errorf("%v: key %q is %q, %q, want %q, %q", c.syntax, c.value, got, reason, c.want, c.reason)
		}
	}
	if _, err := lenient.ParseHeader([]string{"a", "a"}); err == nil ||
		err.Error() != "httpsafe: malformed key: multiple" {
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
		syntax := httpsafe.KeySyntax{Form: httpsafe.KeyForm(form%6) + 1}
		key, err := syntax.ParseHeader([]string{value})
		if err != nil {
			if e := new(httpsafe.KeyError); !errors.As(err, &e) || e.Reason == "" {
				t.Errorf("error %#v", err)
			}
			return
		}
		if len(key) < 1 || len(key) > 255 {
			t.Errorf("key of %d bytes", len(key))
		}
		if syntax.Form == httpsafe.Text {
			return
		}
		// What was read, written as a string, is the same key.
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		again, err := (httpsafe.KeySyntax{Form: httpsafe.StringOnly}).ParseHeader([]string{quoted})
		if err != nil || again != key {
			t.Errorf("%q was read as %q, and that, quoted, as %q, %v", value, key, again, err)
		}
	})
}

// A required key is required of each method that has an effect: PUT and DELETE without one passed through unguarded.
//
// Seen to fail with requiredMethods returning the profile's methods.
func TestRequiredGuardsEveryMethodWithAnEffect(t *testing.T) {
	for _, name := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		k := newKit(t)
		k.options.Required = true
		k.post("", method(name)).wantProblem(400, httpsafe.KeyMissing)
		k.wantRuns(0)
		k.post("k", method(name)).want(201)
		k.post("k", method(name)).want(201)
		k.wantRuns(1)
	}
	k := newKit(t)
	k.options.Required, k.options.Profile = true, httpsafe.IETF()
	k.options.Profile.Methods = []string{http.MethodPost}
	k.post("", method(http.MethodPut)).want(201) // methods that were chosen
	k.post("", method(http.MethodGet)).want(201)
}
