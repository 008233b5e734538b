package sqlitestore

import (
	"testing"

	"github.com/retrysafe/retrysafe"
)

// The view shows JSON as JSON, and the record keeps the bytes. Seen to fail with json_valid taken out.
func TestView(t *testing.T) {
	s := openTest(t)
	const body = "{\"b\": 1.10, \"a\": 2}"
	for id, body := range map[string]string{"json": body, "text": "\xff\x00 not JSON"} {
		p := params(id)
		p.Tags = orderTags(t, "1")
		c, err := s.Claim(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		r := retrysafe.Result{Code: 201, Body: []byte(body)}
		if err := s.Complete(t.Context(), c.Lease, r, retrysafe.Retention{}); err != nil {
			t.Fatal(err)
		}
	}
	var id, state, digest, tags string
	err := s.db.QueryRow("SELECT key, state, digest, tags FROM retrysafe_keys WHERE json_body ->> 'a' = 2").
		Scan(&id, &state, &digest, &tags)
	if err != nil {
		t.Fatal(err)
	}
	if want := params("json").Key.String(); id != "json" || state != "succeeded" || digest != want {
		t.Errorf("got %s, %s, %s, want json, succeeded, %s", id, state, digest, want)
	}
	if want := "customer=alice, order=1"; tags != want {
		t.Errorf("got tags %q, want %q", tags, want)
	}
	c, err := s.Claim(t.Context(), params("json"))
	if err != nil || string(c.Record.Result.Body) != body {
		t.Errorf("got %q, %v, want the bytes as they were", c.Record.Result.Body, err)
	}
}
