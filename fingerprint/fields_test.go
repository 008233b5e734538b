package fingerprint_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/fingerprint"
)

const rfc6901 = `{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}`

// Seen to fail with "~0" replaced before "~1", with leading zeros allowed, and with array indexes not checked.
func TestJSONField(t *testing.T) {
	for name, c := range map[string]struct {
		body, pointer, want string
		nowhere             bool
	}{
		"whole, canonical":   {body: ` {"b":1,"a":"x"} `, pointer: "", want: `{"a":"x","b":1}`},
		"whole, string":      {body: `"x"`, pointer: "", want: `x`},
		"array":              {body: rfc6901, pointer: "/foo", want: `["bar","baz"]`},
		"element":            {body: rfc6901, pointer: "/foo/0", want: `bar`},
		"empty name":         {body: rfc6901, pointer: "/", want: `0`},
		"slash in name":      {body: rfc6901, pointer: "/a~1b", want: `1`},
		"percent":            {body: rfc6901, pointer: "/c%d", want: `2`},
		"caret":              {body: rfc6901, pointer: "/e^f", want: `3`},
		"bar":                {body: rfc6901, pointer: "/g|h", want: `4`},
		"backslash":          {body: rfc6901, pointer: `/i\j`, want: `5`},
		"quote":              {body: rfc6901, pointer: `/k"l`, want: `6`},
		"space":              {body: rfc6901, pointer: "/ ", want: `7`},
		"tilde in name":      {body: rfc6901, pointer: "/m~0n", want: `8`},
		"tilde then 1":       {body: `{"~1":"yes","/":"no"}`, pointer: "/~01", want: `yes`},
		"empty names":        {body: `{"":{"":"in"}}`, pointer: "//", want: `in`},
		"escaped name":       {body: `{"\u0061":"x"}`, pointer: "/a", want: `x`},
		"string unescaped":   {body: `{"a":"\u00e9\n\"\ud83d\ude00"}`, pointer: "/a", want: "é\n\"😀"},
		"empty string":       {body: `{"a":""}`, pointer: "/a", want: ``},
		"number as written":  {body: `{"a":1.50E+2}`, pointer: "/a", want: `1.50E+2`},
		"large number":       {body: `{"a":9007199254740993}`, pointer: "/a", want: `9007199254740993`},
		"true":               {body: `[true]`, pointer: "/0", want: `true`},
		"false":              {body: `[false]`, pointer: "/0", want: `false`},
		"null is there":      {body: `{"a":null}`, pointer: "/a", want: `null`},
		"digits as a name":   {body: `{"01":"x"}`, pointer: "/01", want: `x`},
		"dash as a name":     {body: `{"-":"x"}`, pointer: "/-", want: `x`},
		"deep":               {body: `{"a":[{"b":[1,{"c":2}]}]}`, pointer: "/a/0/b/1/c", want: `2`},
		"tenth element":      {body: `[0,1,2,3,4,5,6,7,8,9,"x"]`, pointer: "/10", want: `x`},
		"no such member":     {body: `{"a":1}`, pointer: "/b", nowhere: true},
		"case counts":        {body: `{"a":1}`, pointer: "/A", nowhere: true},
		"behind a number":    {body: `{"a":1}`, pointer: "/a/b", nowhere: true},
		"behind a string":    {body: `{"a":"xyz"}`, pointer: "/a/0", nowhere: true},
		"behind null":        {body: `null`, pointer: "/a", nowhere: true},
		"behind nothing":     {body: `{"a":1}`, pointer: "/b/c", nowhere: true},
		"empty part":         {body: `{"a":{"b":1}}`, pointer: "/a/", nowhere: true},
		"past the end":       {body: `[1,2]`, pointer: "/2", nowhere: true},
		"dash":               {body: `[1,2]`, pointer: "/-", nowhere: true},
		"leading zero":       {body: `[1,2]`, pointer: "/01", nowhere: true},
		"two zeros":          {body: `[1,2]`, pointer: "/00", nowhere: true},
		"negative":           {body: `[1,2]`, pointer: "/-1", nowhere: true},
		"plus":               {body: `[1,2]`, pointer: "/+1", nowhere: true},
		"no digits":          {body: `[1,2]`, pointer: "/x", nowhere: true},
		"digits and more":    {body: `[1,2]`, pointer: "/1x", nowhere: true},
		"empty index":        {body: `[1,2]`, pointer: "/", nowhere: true},
		"larger than an int": {body: `[1,2]`, pointer: "/99999999999999999999", nowhere: true},
		"arabic digit":       {body: `[1,2]`, pointer: "/١", nowhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok, err := fingerprint.JSONField([]byte(c.body), c.pointer)
			if err != nil || got != c.want || ok == c.nowhere {
				t.Errorf("JSONField(%s, %q) = %q, %v, %v; want %q, %v", c.body, c.pointer, got, ok, err, c.want, !c.nowhere)
			}
		})
	}
}

// Seen to fail with JSONField instead, and without the look at the canonical form: the text "null" was missing too.
func TestJSONKey(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":{"b":"x"}}`: "x", `{"a":{"b":null}}`: "", `{"a":{"b":"null"}}`: "null", `{"a":null}`: "",
	} {
		got, ok, err := fingerprint.JSONKey([]byte(body), "/a/b")
		if got != want || ok != (want != "") || err != nil {
			t.Errorf("JSONKey(%s) = %q, %v, %v; want %q", body, got, ok, err, want)
		}
	}
	if _, ok, err := fingerprint.JSONKey([]byte("null"), ""); ok || err != nil {
		t.Errorf("null as a whole: got %v, %v", ok, err)
	}
}

func TestJSONFieldRefuses(t *testing.T) {
	for name, c := range map[string]struct{ body, pointer string }{
		"no slash":                  {`{"a":1}`, "a"},
		"URI fragment":              {`{"a":1}`, "#/a"},
		"tilde at the end":          {`{"a":1}`, "/a~"},
		"tilde and 2":               {`{"a":1}`, "/~0~2"},
		"not UTF-8":                 {`{"a":1}`, "/\xff"},
		"no JSON":                   {`a`, "/a"},
		"empty body":                {``, ""},
		"duplicate name":            {`{"a":1,"a":2}`, "/a"},
		"duplicate name beside it":  {`{"a":1,"b":{"c":1,"c":2}}`, "/a"},
		"garbage behind the object": {`{"a":1}]`, "/a"},
	} {
		if got, ok, err := fingerprint.JSONField([]byte(c.body), c.pointer); err == nil || ok || got != "" {
			t.Errorf("%s: JSONField(%q, %q) = %q, %v, %v; want an error", name, c.body, c.pointer, got, ok, err)
		}
	}
}

// Seen to fail with absent fields written as null, with pointers in the order of the list, and with excluded parts
// taken out one after the other.
func TestFieldsCanonical(t *testing.T) {
	include := func(pointers ...string) fingerprint.Fields { return fingerprint.Fields{Include: pointers} }
	exclude := func(pointers ...string) fingerprint.Fields { return fingerprint.Fields{Exclude: pointers} }
	for name, c := range map[string]struct {
		fields     fingerprint.Fields
		body, want string
	}{
		"everything":               {fingerprint.Fields{}, `{"b":1, "a":2}`, `{"a":2,"b":1}`},
		"empty lists":              {fingerprint.Fields{Include: []string{}, Exclude: []string{}}, `{"a":1}`, `{"a":1}`},
		"include":                  {include("/a"), `{"b":1,"a":{"d":1,"c":2}}`, `{"/a":{"c":2,"d":1}}`},
		"include sorts":            {include("/b", "/a"), `{"b":1,"a":2}`, `{"/a":2,"/b":1}`},
		"include twice":            {include("/a", "/b", "/a"), `{"b":1,"a":2}`, `{"/a":2,"/b":1}`},
		"include inside":           {include("/i/1/sku"), `{"i":[{"sku":"x"},{"sku":"y"}]}`, `{"/i/1/sku":"y"}`},
		"include parent and child": {include("/a/b", "/a"), `{"a":{"b":1}}`, `{"/a":{"b":1},"/a/b":1}`},
		"include whole":            {include(""), `{"b":1,"a":2}`, `{"":{"a":2,"b":1}}`},
		"include absent":           {include("/a", "/b"), `{"b":1}`, `{"/b":1}`},
		"include null":             {include("/a", "/b"), `{"a":null,"b":1}`, `{"/a":null,"/b":1}`},
		"include nothing found":    {include("/a"), `[]`, `{}`},
		"include escaped name":     {include("/a~1b\n"), `{"a/b\n":1}`, `{"/a~1b\n":1}`},
		"exclude":                  {exclude("/at"), `{"at":"now","b":1,"a":2}`, `{"a":2,"b":1}`},
		"exclude absent":           {exclude("/at", "/x/y", "/b/c"), `{"b":1}`, `{"b":1}`},
		"exclude null":             {exclude("/at"), `{"at":null}`, `{}`},
		"exclude first and last":   {exclude("/a", "/c"), `{"a":1,"b":2,"c":3}`, `{"b":2}`},
		"exclude all members":      {exclude("/a", "/b"), `{"a":1,"b":2}`, `{}`},
		"exclude inside":           {exclude("/a/b"), `{"a":{"b":1,"c":2}}`, `{"a":{"c":2}}`},
		"exclude parent and child": {exclude("/a/b", "/a"), `{"a":{"b":1},"c":2}`, `{"c":2}`},
		"exclude elements":         {exclude("/0", "/1"), `[1,2,3,4]`, `[3,4]`},
		"exclude inside elements": {
			exclude("/0/at", "/1/at"), `[{"at":1,"a":2},{"at":3,"a":4},{"at":5}]`,
			`[{"a":2},{"a":4},{"at":5}]`,
		},
		"exclude behind the end": {exclude("/-", "/2"), `[1,2]`, `[1,2]`},
		"exclude escaped name":   {exclude("/~0~1"), `{"~/":1,"a":2}`, `{"a":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.fields.Canonical([]byte(c.body))
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestFieldsCanonicalRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		fields fingerprint.Fields
		body   string
	}{
		"no JSON":                     {fingerprint.Fields{Include: []string{"/a"}}, `x`},
		"duplicate outside of choice": {fingerprint.Fields{Include: []string{"/a"}}, `{"a":1,"b":2,"b":3}`},
		"duplicate that is excluded":  {fingerprint.Fields{Exclude: []string{"/b"}}, `{"a":1,"b":2,"b":3}`},
		"both lists":                  {fingerprint.Fields{Include: []string{"/a"}, Exclude: []string{"/b"}}, `{}`},
	} {
		if got, err := c.fields.Canonical([]byte(c.body)); err == nil || got != nil {
			t.Errorf("%s: got %s, %v; want an error", name, got, err)
		}
	}
}

func TestFieldsCanonicalKeepsTheList(t *testing.T) {
	f := fingerprint.Fields{Include: []string{"/b", "/a", "/b"}}
	if _, err := f.Canonical([]byte(`{}`)); err != nil || f.Include[0] != "/b" || f.Include[1] != "/a" ||
		f.Include[2] != "/b" {
		t.Errorf("the list became %q, %v", f.Include, err)
	}
}

// Seen to fail with each check taken out, one at a time.
func TestFieldsValidate(t *testing.T) {
	for _, c := range []struct {
		fields fingerprint.Fields
		ok     bool
	}{
		{fingerprint.Fields{}, true},
		{fingerprint.Fields{Include: []string{"", "/", "/a/0/-", "/~0~1"}}, true},
		{fingerprint.Fields{Exclude: []string{"/", "/a"}}, true},
		{fingerprint.Fields{Include: []string{"/a"}, Exclude: []string{"/b"}}, false},
		{fingerprint.Fields{Include: []string{"/a", "b"}}, false},
		{fingerprint.Fields{Include: []string{"/a~2"}}, false},
		{fingerprint.Fields{Exclude: []string{"/a", "b"}}, false},
		{fingerprint.Fields{Exclude: []string{"/a", ""}}, false},
		{fingerprint.Fields{Exclude: []string{"/~"}}, false},
	} {
		if err := c.fields.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.fields, err)
		}
	}
}
