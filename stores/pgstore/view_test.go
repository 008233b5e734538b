package pgstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// The view shows answers to people, and changes nothing of them.
// Seen to fail with json::jsonb::json in as_json: keys were sorted, one of two was dropped, numbers were rewritten.
func TestViewShowsAnswers(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for i, c := range []struct{ body, json string }{
		{`{"b": 1, "a":2, "a" : 1.50}`, `{"b": 1, "a":2, "a" : 1.50}`},
		{` "\u0000" `, ` "\u0000" `},
		{"no JSON", ""},
		{"\xff\x00", ""},
		{"", ""},
	} {
		id := fmt.Sprint("id ", i)
		if err := s.Complete(context.Background(), acquire(t, s, id),
			retrysafe.Result{Code: 201, Body: []byte(c.body)}, retrysafe.Retention{}); err != nil {
			t.Fatal(err)
		}
		if got := value[[]byte](t, s, "SELECT body FROM {{schema}}.records WHERE id = $1", id); string(got) != c.body {
			t.Errorf("body = %q, want %q", got, c.body)
		}
		if got := value[string](t, s, "SELECT coalesce(json::text, '') FROM {{schema}}.records WHERE id = $1",
			id); got != c.json {
			t.Errorf("json of %q = %q, want %q", c.body, got, c.json)
		}
	}
	if got := value[string](t, s, "SELECT json ->> 'b' FROM {{schema}}.records WHERE id = 'id 0'"); got != "1" {
		t.Errorf("json ->> 'b' = %q, want 1", got)
	}
}

// The view can be read whatever plan the server makes. Seen to fail with as_json marked PARALLEL SAFE: "cannot start
// subtransactions during a parallel operation", as with 200,000 records.
func TestViewIsReadInParallel(t *testing.T) {
	t.Parallel()
	s := openAt(t, shared.Get(t).Database(t)+"&parallel_setup_cost=0&parallel_tuple_cost=0&min_parallel_table_scan_size=0"+
		"&min_parallel_index_scan_size=0&max_parallel_workers_per_gather=2", Options{})
	for i := range 100 {
		if err := complete(s, acquire(t, s, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, s, "ANALYZE")
	if n := value[int](t, s, "SELECT count(*) FILTER (WHERE json IS NOT NULL) FROM {{schema}}.records"); n != 100 {
		t.Errorf("%d answers are JSON, want 100", n)
	}
}

func TestViewShowsStates(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	ctx := context.Background()
	acquire(t, s, "running")
	if err := s.Extend(ctx, acquire(t, s, "gone"), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(ctx, acquire(t, s, "broken"), retrysafe.Result{Failed: true, Code: 3},
		retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"running": "pending tenant", "gone": "abandoned tenant",
		"broken": "failed tenant",
	} {
		if got := value[string](t, s, "SELECT state || ' ' || scope FROM {{schema}}.records WHERE id = $1", id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}
