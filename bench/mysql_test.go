package main

import (
	"io"
	"testing"
	"time"
)

// A single caller cannot share syncs: a claim and a completion need two, in the store as well as by plain statements.
//
// Seen to fail with innodb-flush-log-at-trx-commit 0 (4 syncs in 700 pairs).
func TestAPairOnMariaDBIsTwoSyncs(t *testing.T) {
	r := &run{Quick: true, log: io.Discard, began: time.Now(), dir: reachableFolder(t)}
	s, err := startMariaDB(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	dsn, err := s.fresh(t.Context(), "syncs")
	if err != nil {
		t.Fatal(err)
	}
	for name, asked := range map[string]mysqlPairs{"mysqlstore": {Callers: 1}, "plain": {Connections: 1}} {
		asked.DSN, asked.Server, asked.race = dsn, s.PID(), race{1, 300 * time.Millisecond}
		before, err := mysqlStatus(t.Context(), s.db, "Innodb_data_fsyncs")
		if err != nil {
			t.Fatal(err)
		}
		got, err := call[results](t.Context(), place{}, asked)
		if err != nil {
			t.Fatal(err)
		}
		after, err := mysqlStatus(t.Context(), s.db, "Innodb_data_fsyncs")
		if err != nil {
			t.Fatal(err)
		}
		if pairs := got[ours].Count + got[theirs].Count; pairs == 0 || after-before < 2*pairs {
			t.Errorf("%s: %d syncs in %d pairs, want two for each", name, after-before, pairs)
		}
	}
}
