package mysqlstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// The view shows answers to people, and changes nothing of them. Seen to fail with json as "JSON_COMPACT" makes it,
// without JSON_VALID, with the body converted to utf8mb4, and without the comparison of what was converted.
func TestViewShowsAnswers(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for i, c := range []struct{ body, json string }{
		{`{"b": 1, "a":2, "a" : 1.50}`, `{"b": 1, "a":2, "a" : 1.50}`},
		{` "\u0000ü" `, ` "\u0000ü" `},
		{"no JSON", ""},
		{"\xff\x00", ""},
		{"\"\xff\"", ""}, // the server would show it as "?"
		{"", ""},
	} {
		id := fmt.Sprint("id ", i)
		if err := s.Complete(context.Background(), acquire(t, s, id),
			retrysafe.Result{Code: 201, Body: []byte(c.body)}, retrysafe.Retention{}); err != nil {
			t.Fatal(err)
		}
		from := fmt.Sprintf(" FROM {{records}} WHERE id = '%s'", id)
		if got := value[[]byte](t, s, "SELECT body"+from); string(got) != c.body {
			t.Errorf("body = %q, want %q", got, c.body)
		}
		if got := value[string](t, s, "SELECT COALESCE(json, '')"+from); got != c.json {
			t.Errorf("json of %q = %q, want %q", c.body, got, c.json)
		}
	}
	if got := value[string](t, s, "SELECT JSON_VALUE(json, '$.b') FROM {{records}} WHERE id = 'id 0'"); got != "1" {
		t.Errorf("b in json = %q, want 1", got)
	}
}

// Seen to fail with the case for abandoned taken out, and with two of the states exchanged.
func TestViewShowsStates(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	ctx := context.Background()
	acquire(t, s, "running")
	if err := s.Extend(ctx, acquire(t, s, "gone"), 0); err != nil {
		t.Fatal(err)
	}
	if err := complete(s, acquire(t, s, "paid")); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(ctx, acquire(t, s, "broken"), retrysafe.Result{Failed: true, Code: 3},
		retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"running": "pending tenant", "gone": "abandoned tenant",
		"paid": "succeeded tenant", "broken": "failed tenant",
	} {
		if got := value[string](t, s, "SELECT CONCAT(state, ' ', scope) FROM {{records}} WHERE id = '"+id+"'"); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}
