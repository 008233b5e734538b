package probe

import (
	"encoding/json"
	"testing"
)

// A request that has a key and is given another has that one. Seen to fail with withoutFirst taken out.
func TestWithMember(t *testing.T) {
	for body, want := range map[string]string{
		`{"amount": 1}`:                `{"k":"new","amount": 1}`,
		`{}`:                           `{"k":"new"}`,
		`{"k":"o\"ld, {","amount": 1}`: `{"k":"new","amount": 1}`,
		`{"k":"old"}`:                  `{"k":"new"}`,
		`{"k":"old" , "amount": "k"}`:  `{"k":"new", "amount": "k"}`,
		`{"k":1,"amount": 1}`:          `{"k":"new","k":1,"amount": 1}`,
		`{"kk":"old","amount": 1}`:     `{"k":"new","kk":"old","amount": 1}`,
		`["k"]`:                        `["k"]`,
	} {
		if got := string(WithMember([]byte(body), "k", "new")); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

// Seen to fail with memberIn taken out of WithPointer (the object that is there is doubled).
func TestWithPointer(t *testing.T) {
	for _, c := range []struct{ body, pointer, want string }{
		{`{"a": 1}`, "/k", `{"k":"new","a": 1}`},
		{`{"a": 1}`, "/m/k", `{"m":{"k":"new"},"a": 1}`},
		{`{"a": 1, "m" : {"b":2.10} }`, "/m/k", `{"a": 1, "m" : {"k":"new","b":2.10} }`},
		{`{"m":{"n":{}}}`, "/m/n/a~1b", `{"m":{"n":{"a/b":"new"}}}`},
		{`{"m":7}`, "/m/k", `{"m":7}`},
		{`{"amount": `, "/m/k", `{"m":{"k":"new"},"amount":`},
		{`[1]`, "/m/k", `[1]`},
	} {
		if got := string(WithPointer([]byte(c.body), c.pointer, "new")); got != c.want {
			t.Errorf("%s at %s: got %s, want %s", c.body, c.pointer, got, c.want)
		}
	}
	for form, want := range map[string]string{
		"": "k=a+b%26", "x=1&k=old&y=%zz": "x=1&y=%zz&k=a+b%26", "%6b=old&k&kk=1": "kk=1&k=a+b%26",
	} {
		if got := WithParameter(form, "k", "a b&"); got != want {
			t.Errorf("%s: got %s, want %s", form, got, want)
		}
	}
}

// A key that is put into a JSON object is there, and the rest stays JSON.
func FuzzWithPointer(f *testing.F) {
	f.Add(`{"a": 1, "m" : {"b":2.10} }`, "/m/k", "key")
	f.Add(`{"m":[{}]}`, "/m/~0~1", "\xff")
	f.Fuzz(func(t *testing.T, body, pointer, key string) {
		got := WithPointer([]byte(body), pointer, key)
		if json.Valid([]byte(body)) && !json.Valid(got) {
			t.Fatalf("%q at %q: %q", body, pointer, got)
		}
		if again := WithPointer(got, pointer, key); json.Valid([]byte(body)) && !json.Valid(again) {
			t.Fatalf("%q at %q, again: %q", body, pointer, again)
		}
	})
}
