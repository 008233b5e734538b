package mysqlstore

import (
	"slices"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// An account that may read the view alone sees the counts of the last day and nothing of yesterday, and the server
// finds the rows by an index.
func TestActivity(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	completeMany(t, s, 5000)
	execute(t, s, "UPDATE {{claims}} SET claimed_at = claimed_at - 86400000000, first_fence = first_fence - 86400000000")
	if err := complete(s, acquire(t, s, "done")); err != nil {
		t.Fatal(err)
	}
	if err := s.Extend(t.Context(), acquire(t, s, "abandoned"), 0); err != nil {
		t.Fatal(err)
	}
	l := acquire(t, s, "failed")
	if err := s.Complete(t.Context(), l, retrysafe.Result{Failed: true}, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	role, dsn := stranger(t, shared.Get(t).DSN(s.options.Database))
	execute(t, s, "GRANT SELECT ON {{activity}} TO '"+role+"'@'%'")
	var got [5]int
	text := inDatabase("SELECT SUM(claims), SUM(completed), SUM(failed), SUM(abandoned), SUM(in_flight) FROM {{activity}}",
		s.options.Database)
	err := openPool(t, dsn).QueryRow(text).Scan(&got[0], &got[1], &got[2], &got[3], &got[4])
	if want := [5]int{3, 1, 1, 1, 0}; err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	execute(t, s, "ANALYZE TABLE {{claims}}")
	if used := plan(t, s, inDatabase("SELECT * FROM {{activity}}", s.options.Database)); !slices.Contains(used, "range first") {
		t.Errorf("the plan is %q, want the index of the first fence", used)
	}
}
