package fingerprint_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/fingerprint"
)

func addBodies(add func(body string)) {
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `{"a":1,"b":[true,false,null,"x",-1.50e+3]}`, ` { "b" : 1 , "a" : { "d" : [ ] } } `,
		`{"a":1,"a":2}`, `"\u0061\ud83d\ude00\n\/"`, `"\ud83d"`, "\"\xff\"", "\ufeff{}", `{"a":1}x`, `{"a/b":{"m~n":["é"]}}`,
		`{"":{"":0}}`, `[[[[[]]]]]`, `9007199254740993`, "{\"\ufb33\":1,\"😀\":2}", rfc6901,
	} {
		add(body)
	}
}

// decode reads JSON by other means than ours.
func decode(t *testing.T, body []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json does not read %q: %v", body, err)
	}
	return v
}

// pointers returns all values in v by their JSON pointers.
func pointers(v any) map[string]any {
	found := map[string]any{"": v}
	add := func(part string, child any) {
		for pointer, value := range pointers(child) {
			found["/"+part+pointer] = value
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			add(strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1"), member)
		}
	case []any:
		for i, element := range v {
			add(strconv.Itoa(i), element)
		}
	}
	return found
}

// shallow keeps the fuzzer from bodies that the slow model above cannot read in reasonable time.
func shallow(body []byte) bool {
	return len(body) < 2000 && bytes.Count(body, []byte("[")) < 50 && bytes.Count(body, []byte("{")) < 50
}

func FuzzCanonicalJSON(f *testing.F) {
	addBodies(func(body string) { f.Add([]byte(body)) })
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := fingerprint.CanonicalJSON(body)
		part := fingerprint.JSONPart(body, fingerprint.Fields{})
		if err != nil {
			if part != "raw:"+string(body) {
				t.Errorf("part %q", part)
			}
			return
		}
		if part != "canonical:"+string(got) {
			t.Errorf("part %q, canonical form %q", part, got)
		}
		if !json.Valid(body) {
			t.Errorf("%q is not JSON", body)
		}
		if want, got := decode(t, body), decode(t, got); !reflect.DeepEqual(want, got) {
			t.Errorf("%v became %v", want, got)
		}
		if again, err := fingerprint.CanonicalJSON(got); err != nil || !bytes.Equal(again, got) {
			t.Errorf("%q became %q, %v", got, again, err)
		}
	})
}

func FuzzJSONField(f *testing.F) {
	addBodies(func(body string) {
		for _, pointer := range []string{"", "/", "/a", "/b/0", "/0/0", "/a~1b/m~0n/0", "/-", "/01", "//", "/~", "a"} {
			f.Add([]byte(body), pointer)
		}
	})
	f.Fuzz(func(t *testing.T, body []byte, pointer string) {
		got, ok, err := fingerprint.JSONField(body, pointer)
		if err != nil || !shallow(body) {
			return
		}
		want, there := pointers(decode(t, body))[pointer]
		if ok != there {
			t.Fatalf("%q in %s: %v, want %v", pointer, body, ok, there)
		}
		switch want := want.(type) {
		case map[string]any, []any:
			if !reflect.DeepEqual(decode(t, []byte(got)), want) {
				t.Errorf("%q in %s: %s, want %v", pointer, body, got, want)
			}
		case string:
			wantText(t, got, want)
		case json.Number:
			wantText(t, got, want.String())
		case bool:
			wantText(t, got, strconv.FormatBool(want))
		case nil:
			wantText(t, got, map[bool]string{true: "null"}[there])
		}
	})
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzFields(f *testing.F) {
	addBodies(func(body string) {
		for _, pair := range [][2]string{
			{"/a", "/b"},
			{"/b/0", "/b/2"},
			{"/b", "/b/0"},
			{"/0", "/0/0"},
			{"", "/"},
			{"/a~1b", "/~"},
		} {
			f.Add([]byte(body), pair[0], pair[1])
		}
	})
	f.Fuzz(func(t *testing.T, body []byte, a, b string) {
		whole, invalid := fingerprint.CanonicalJSON(body)
		list := []string{a, b}
		for _, fields := range []fingerprint.Fields{{Include: list}, {Exclude: list}} {
			got, err := fields.Canonical(body)
			if failed := invalid != nil || fields.Validate() != nil; failed != (err != nil) {
				t.Fatalf("%+v of %s: %v", fields, body, err)
			}
			if err != nil || !shallow(body) {
				continue
			}
			if again, err := fields.Canonical(whole); err != nil || !bytes.Equal(again, got) {
				t.Errorf("%+v of %s: %s; of its canonical form: %s", fields, body, got, again)
			}
			if again, err := fingerprint.CanonicalJSON(got); err != nil || !bytes.Equal(again, got) {
				t.Errorf("%+v of %s: %s is not canonical", fields, body, got)
			}
			if want := choose(decode(t, body), fields); !reflect.DeepEqual(decode(t, got), want) {
				t.Errorf("%+v of %s: %s, want %v", fields, body, got, want)
			}
		}
	})
}

// choose is Fields.Canonical by other means.
func choose(v any, f fingerprint.Fields) any {
	if len(f.Exclude) > 0 {
		return without(v, "", f.Exclude)
	}
	found := pointers(v)
	maps.DeleteFunc(found, func(pointer string, _ any) bool { return !slices.Contains(f.Include, pointer) })
	return found
}

func without(v any, at string, exclude []string) any {
	switch v := v.(type) {
	case map[string]any:
		left := map[string]any{}
		for name, member := range v {
			pointer := at + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
			if !slices.Contains(exclude, pointer) {
				left[name] = without(member, pointer, exclude)
			}
		}
		return left
	case []any:
		left := []any{}
		for i, element := range v {
			pointer := at + "/" + strconv.Itoa(i)
			if !slices.Contains(exclude, pointer) {
				left = append(left, without(element, pointer, exclude))
			}
		}
		return left
	}
	return v
}
