package pgstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
)

// Each column counts what the reference says, a record of yesterday counts nowhere, and a role that may read the view
// alone may read it.
func TestActivity(t *testing.T) {
	t.Parallel()
	database := shared.Get(t).Database(t)
	s := openAt(t, database, Options{})
	done := acquire(t, s, "yesterday")
	if err := complete(s, done); err != nil {
		t.Fatal(err)
	}
	execute(t, s, `UPDATE {{schema}}.claims SET claimed_at = claimed_at - 86400000000, first_fence = first_fence - 86400000000,
		ends_at = ends_at - 1000`)
	for i := range 3 {
		if err := complete(s, acquire(t, s, fmt.Sprint("done ", i))); err != nil {
			t.Fatal(err)
		}
	}
	l := acquire(t, s, "failed")
	if err := s.Complete(t.Context(), l, retrysafe.Result{Failed: true, Omitted: true}, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	l = acquire(t, s, "released")
	if err := s.Checkpoint(t.Context(), l, retrysafe.StepResult{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	acquire(t, s, "in flight")
	for _, id := range []string{"taken over", "abandoned"} {
		l := acquire(t, s, id)
		if err := s.Extend(t.Context(), l, 0); err != nil {
			t.Fatal(err)
		}
	}
	p := params("taken over")
	p.TakeOver = true
	if c, err := s.Claim(t.Context(), p); err != nil || c.Verdict != retrysafe.Acquired {
		t.Fatalf("take over: %v, %v", c.Verdict, err)
	}
	role, url := stranger(t, database, "monitor")
	quoted := pgx.Identifier{role}.Sanitize()
	execute(t, s, "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {{schema}} FROM PUBLIC")
	execute(t, s, "GRANT USAGE ON SCHEMA {{schema}} TO "+quoted)
	execute(t, s, "GRANT SELECT ON {{schema}}.activity TO "+quoted)
	var got [8]int
	err := openPool(t, url).QueryRow(t.Context(), `SELECT sum(claims)::int, sum(completed)::int, sum(failed)::int, sum(released)::int,
		sum(in_flight)::int, sum(abandoned)::int, sum(repeated)::int, sum(omitted)::int FROM retrysafe.activity
		WHERE hour >= date_trunc('hour', now() - interval '24 hours', 'UTC')`).
		Scan(&got[0], &got[1], &got[2], &got[3], &got[4], &got[5], &got[6], &got[7])
	if want := [8]int{8, 3, 1, 1, 2, 1, 1, 1}; err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

// Among many old records the view reads those of the last day alone, by the index of the first fence, whether or not
// the table was analysed.
func TestActivityUsesTheIndex(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	execute(t, s, `INSERT INTO {{schema}}.claims SELECT gen_random_uuid(), gen_random_uuid(), f, f, f, f, 0, 0, 0, 0, 1, 0, 0, 3,
		false, false, false, '', '', '' FROM generate_series(1::bigint, 50000) n, LATERAL (SELECT {{schema}}.clock() - n * 60000000) t (f)`)
	execute(t, s, "ANALYZE {{schema}}.claims")
	if n := value[int](t, s, "SELECT sum(claims)::int FROM {{schema}}.activity"); n < 1438 || n > 1440 {
		t.Errorf("%d keys were claimed within a day, want 1439 or so", n)
	}
	lines := plan(t, s, inSchema("SELECT * FROM {{schema}}.activity", s.options.Schema), planned{mode: "force_custom_plan"})
	if !strings.Contains(lines, "claims_first") || strings.Contains(lines, "Seq Scan on claims") {
		t.Errorf("the plan:\n%s", lines)
	}
}
