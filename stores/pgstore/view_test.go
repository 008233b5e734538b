package pgstore

import (
	"fmt"
	"testing"
)

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
