package mysqlstore

import (
	"slices"
	"testing"
	"time"
)

// The day of a completion that is not committed yet stays, also if it commits while the sweep waits. Seen to fail without
// LOCK IN SHARE MODE in day_is_needed.sql: 0 answers were left.
func TestPastDayWaitsForOpenCompletion(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	today := partitions(t, s)[1]
	execute(t, s, "ALTER TABLE {{results}} REORGANIZE PARTITION "+today+" INTO ("+
		"PARTITION d20220101 VALUES LESS THAN (1641081600000000), "+
		"PARTITION "+today+" VALUES LESS THAN ("+endOf(t, s, today)+"))")
	for _, pause := range []time.Duration{0, 300 * time.Millisecond} { // both within the second that the sweep waits
		tx, err := s.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		const text = "INSERT INTO {{results}} VALUES (1641081500000000, UNHEX(REPLACE(UUID(), '-', '')), 9000000000000000, '', '')"
		if _, err := tx.ExecContext(t.Context(), inDatabase(text, s.options.Database)); err != nil {
			t.Fatal(err)
		}
		s.sweeper.maintained = time.Time{}
		swept := make(chan error, 1)
		go func() { _, err := s.Sweep(t.Context(), 10); swept <- err }()
		if pause > 0 {
			time.Sleep(pause)
		} else if err := <-swept; err != nil { // it gives up
			t.Error(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if pause > 0 {
			if err := <-swept; err != nil {
				t.Error(err)
			}
		}
		const kept = "SELECT COUNT(*) FROM {{results}} WHERE keep_until > 8000000000000000"
		if n := value[int](t, s, kept); n != 1 || !slices.Contains(partitions(t, s), "d20220101") {
			t.Fatalf("committed after %v: %d answers are left, want 1", pause, n)
		}
		execute(t, s, "DELETE FROM {{results}}")
	}
}
