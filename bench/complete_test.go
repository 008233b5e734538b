package main

import (
	"io"
	"testing"
	"time"
)

// A completion is one more round trip of a transaction, and none if the statements are pipelined. Together with the work
// it is the only one.
//
// Seen to fail with the statements not prepared (QueryExecModeDescribeExec: two round trips each).
func TestCompleteAddsOneRoundTrip(t *testing.T) {
	r := &run{Quick: true, log: io.Discard, began: time.Now(), dir: reachableFolder(t)}
	s, err := startPostgres(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	store, err := s.store(t.Context(), completeSchema)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.exec(t.Context(), chargesTable); err != nil {
		t.Fatal(err)
	}
	for pipelined, want := range map[bool][2]float64{false: {4, 3}, true: {1, 1}} {
		got, err := call[results](t.Context(), place{}, completions{
			race: race{Rounds: 1}, URL: store.URL, Callers: 1, Transactions: 20, Pipelined: pipelined,
		})
		if err != nil {
			t.Fatal(err)
		}
		with, without := got[ours].Trips.Median(), got[theirs].Trips.Median()
		if with != want[0] || without != want[1] {
			t.Errorf("pipelined %v: %v round trips with complete and %v without, want %v", pipelined, with, without, want)
		}
		if single := got[atOnce].Trips; !pipelined && single.Median() != 1 {
			t.Errorf("one statement takes %v round trips", single)
		}
	}
}
