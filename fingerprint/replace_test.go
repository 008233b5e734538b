package fingerprint_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/fingerprint"
)

// All bytes but those of the replaced values stay. Seen to fail with the order of the changes left as it is given, and with
// nested pointers not skipped.
func TestReplaceJSON(t *testing.T) {
	for _, c := range []struct {
		body, from string
		pointers   []string
		want       string
	}{
		{`{"jsonrpc":"2.0","result":1e2,"id":7}`, `{"id":"x","method":"pay"}`, []string{"/id"}, `{"jsonrpc":"2.0","result":1e2,"id":"x"}`},
		{" {\"id\" : 7 ,\n\"a\":[ 1 ] } ", `{"a": {"b":[ ]},"id":null}`, []string{"/a", "/id"}, " {\"id\" : null ,\n\"a\":{\"b\":[ ]} } "},
		{`{"id":7}`, `{"jsonrpc":"2.0"}`, []string{"/id"}, `{"id":7}`},
		{`{"error":{}}`, `{"id":7}`, []string{"/id"}, `{"error":{}}`},
		{`{"a":{"b":1},"c":2}`, `{"a":{"b":3},"c":4}`, []string{"/a/b", "/a", "/c"}, `{"a":{"b":3},"c":4}`},
		{`[{"id":1},{"id":2}]`, `[{"id":3},{"id":4}]`, []string{"/1/id"}, `[{"id":1},{"id":4}]`},
		{`{"id":"é\u0001"}`, `{"id":"ü"}`, []string{"/id"}, `{"id":"ü"}`},
	} {
		got, err := fingerprint.ReplaceJSON([]byte(c.body), []byte(c.from), c.pointers)
		if err != nil || string(got) != c.want {
			t.Errorf("%s from %s: got %s, %v; want %s", c.body, c.from, got, err, c.want)
		}
	}
	for _, c := range [][3]string{{`{`, `{}`, "/id"}, {`{}`, `no`, "/id"}, {`{}`, `{}`, "id"}} {
		if got, err := fingerprint.ReplaceJSON([]byte(c[0]), []byte(c[1]), []string{c[2]}); err == nil {
			t.Errorf("%q is accepted: %s", c, got)
		}
	}
}

// What is replaced reads as the new value, the rest as before.
func FuzzReplaceJSON(f *testing.F) {
	f.Add([]byte(`{"id":7,"a":[1,{"id":2}]}`), []byte(`{"id":"x","a":[3]}`), "/id")
	f.Add([]byte(`{"a":{"b":1}}`), []byte(`{"a":{"b":[]}}`), "/a/b")
	f.Fuzz(func(t *testing.T, body, from []byte, pointer string) {
		got, err := fingerprint.ReplaceJSON(body, from, []string{pointer})
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q is no JSON", got)
		}
		_, was, _ := fingerprint.JSONField(body, pointer)
		want, given, _ := fingerprint.JSONField(from, pointer)
		if is, _, err := fingerprint.JSONField(got, pointer); was && given && (err != nil || is != want) {
			t.Fatalf("%q at %q: got %q, %v; want %q", got, pointer, is, err, want)
		}
		if !was || !given {
			if !bytes.Equal(got, body) {
				t.Fatalf("%q was changed to %q", body, got)
			}
		}
	})
}

func ExampleReplaceJSON() {
	stored, request := []byte(`{"jsonrpc":"2.0", "result":"paid", "id":1}`), []byte(`{"jsonrpc":"2.0","method":"pay","id":2}`)
	answer, err := fingerprint.ReplaceJSON(stored, request, []string{"/id"})
	fmt.Println(string(answer), err)
	// Output: {"jsonrpc":"2.0", "result":"paid", "id":2} <nil>
}

func ExampleSetJSON() {
	answer, err := fingerprint.SetJSON([]byte(`{"task":"paid"}`), "/replayed", []byte("true"))
	fmt.Println(string(answer), err)
	// Output: {"replayed":true,"task":"paid"} <nil>
}
