package outbox

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	long := strings.Repeat("x", 256)
	for name, c := range map[string]struct {
		m  Message
		ok bool
	}{
		"nothing":        {Message{}, true},
		"longest":        {Message{Key: long[1:], Topic: long[1:], Aggregate: long[1:]}, true},
		"long key":       {Message{Key: long}, false},
		"key with space": {Message{Key: "a b"}, false},
		"key not ASCII":  {Message{Key: "é"}, false},
		"key with NUL":   {Message{Key: "\x00"}, false},
		"long topic":     {Message{Topic: long}, false},
		"long aggregate": {Message{Aggregate: long}, false},
		"header name":    {Message{Header: map[string]string{"\xff": ""}}, false},
		"header value":   {Message{Header: map[string]string{"a": "\xff"}}, false},
	} {
		m, _ := keyed(t.Context(), c.m)
		if err := m.validate(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalidMessage) {
			t.Errorf("%s: got %v, want it valid: %v", name, err, c.ok)
		}
	}
}

// Seen to fail with the lengths left out of what the digest is over.
func TestDigestTellsMessagesApart(t *testing.T) {
	seen := map[string]bool{}
	all := []Message{
		{},
		{Topic: "ab"},
		{Topic: "a", Aggregate: "b"},
		{Aggregate: "ab"},
		{Body: []byte("ab")},
		{Topic: "a", Body: []byte("b")},
		{Header: map[string]string{"a": "b"}},
		{Header: map[string]string{"ab": ""}},
		{Header: map[string]string{"a": "", "b": ""}},
	}
	for _, m := range all {
		seen[string(m.digest(nil))] = true
	}
	if len(seen) != len(all) {
		t.Errorf("%d digests of %d messages", len(seen), len(all))
	}
}

func TestErrorTextFitsAnyDatabase(t *testing.T) {
	for err, want := range map[error]string{
		errors.New("a\x00b\xffc"):                  "abc",
		errors.New(strings.Repeat("é", 600)):       strings.Repeat("é", 500),
		errors.New("x" + strings.Repeat("é", 600)): "x" + strings.Repeat("é", 499),
	} {
		if got := errorText(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := errorText(nil); got != "" {
		t.Errorf("got %q for no error", got)
	}
}

// A header comes back as it was saved, and a column that another program has written is an error or a header.
func FuzzHeader(f *testing.F) {
	f.Add("a", "b", []byte(`{"a":"b"}`))
	f.Add("", "\x00\u2028", []byte(`{"a":1}`))
	f.Add("\xff", "<&>", []byte(`null`))
	f.Fuzz(func(t *testing.T, name, value string, column []byte) {
		h := map[string]string{name: value}
		if (Message{Header: h}).validate() == nil {
			kept, err := encodeHeader(h)
			var again map[string]string
			if err == nil {
				again, err = decodeHeader(kept)
			}
			if err != nil || !maps.Equal(again, h) {
				t.Errorf("%q became %q, %v", h, again, err)
			}
		}
		read, err := decodeHeader(column)
		if err != nil || len(read) == 0 {
			return
		}
		kept, err := encodeHeader(read)
		var again map[string]string
		if err == nil {
			again, err = decodeHeader(kept)
		}
		if err != nil || !maps.Equal(again, read) {
			t.Errorf("%q became %q, %v", read, again, err)
		}
	})
}
