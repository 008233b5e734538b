package mysqlstore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// The rules about tables, which the stores on SQL servers share.
//
// Seen to fail with json as "JSON_COMPACT" makes it, without JSON_VALID, with the body converted to utf8mb4, without
// the comparison of what was converted, with the case for abandoned taken out of the view, and with two of its states
// exchanged.
func TestTables(t *testing.T) {
	t.Parallel()
	testkit.RunTables(t, func(t *testing.T) testkit.Tables {
		s := openTest(t)
		return testkit.Tables{
			Store: s, Age: func(d time.Duration) { age(t, s, d) }, Execute: func(text string) { execute(t, s, text) },
			Value: func(text string) []byte { return value[[]byte](t, s, text) }, Member: "JSON_VALUE(json, '$.b')",
		}
	})
}

// A row that a transaction has locked is left for later, and holds up nothing. Seen to fail with a DELETE that reads
// the whole table, and with a lock by the index of minutes.
func TestSweepSkipsLockedRows(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	completeMany(t, s, 100)
	age(t, s, 25*time.Hour)
	unlock := lockRow(t, s, params("id 7").Key)
	if got := sweepOnce(t, s, 1000); got != 99 {
		t.Errorf("swept %d, want all but the locked one", got)
	}
	unlock()
	if got := sweepOnce(t, s, 1000); got != 1 {
		t.Errorf("swept %d, want the one that was locked", got)
	}
}

// Seen to fail with storekit.Turn.Take waiting without its context: Sweep had not returned after two minutes.
func TestAPassThatWaitsGivesUp(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	testkit.SweepGivesUp(t, s, s.sweeper.pass)
}

// One process sweeps at a time. Seen to fail with locked calling f without the lock.
func TestOneProcessSweeps(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	completeMany(t, s, 50)
	age(t, s, 25*time.Hour)
	err := s.with(t.Context(), func(c *conn) error {
		return locked(t.Context(), c, lockName("sweep", s.options.Database), 0, func() error {
			if got := sweepOnce(t, s, 1000); got != 0 {
				t.Errorf("swept %d while another process sweeps", got)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := sweepOnce(t, s, 1000); got != 50 {
		t.Errorf("swept %d afterwards, want 50", got)
	}
}

// Days are made ahead, and dropped once no answer of theirs may be read.
func TestDays(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	days := partitions(t, s)
	if len(days) != 1+daysAhead {
		t.Fatalf("there are %v, want one before all and %d days", days, daysAhead)
	}
	// As after a week without a sweep: the days are in the past.
	execute(t, s, "ALTER TABLE {{results}} REORGANIZE PARTITION "+days[1]+" INTO ("+
		"PARTITION d20220101 VALUES LESS THAN (1641081600000000), PARTITION d20220102 VALUES LESS THAN (1641168000000000), "+
		"PARTITION "+days[1]+" VALUES LESS THAN ("+endOf(t, s, days[1])+"))")
	execute(t, s, "INSERT INTO {{results}} VALUES (1641081500000000, 'gone', 1641081600000000, '', ''), "+
		"(1641167000000000, 'kept', 9000000000000000, '', '')")
	sweepOnce(t, s, 10)
	if got := partitions(t, s); slices.Contains(got, "d20220101") || !slices.Contains(got, "d20220102") {
		t.Errorf("there are %v, want the first of 2022 dropped and the second, which is needed, kept", got)
	}
}

func endOf(t *testing.T, s *Store, day string) string {
	t.Helper()
	return value[string](t, s, "SELECT partition_description FROM information_schema.partitions WHERE table_schema = "+
		"{{database_text}} AND table_name = {{results_text}} AND partition_name = '"+day+"'")
}

// A completion that finds no partition makes it. Seen to fail with noPartition taken out of remedy.
func TestMissingDayIsMade(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for _, day := range partitions(t, s)[1:] {
		execute(t, s, "ALTER TABLE {{results}} DROP PARTITION "+day)
	}
	if err := complete(s, acquire(t, s, "k")); err != nil {
		t.Error(err)
	}
}

// A transaction that uses the table of answers for long delays the sweep's days, and after a second nothing else. Seen
// to fail with lock_wait_timeout left as it was.
func TestLongReadDelaysNoOperation(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	execute(t, s, "ALTER TABLE {{results}} DROP PARTITION "+partitions(t, s)[daysAhead])
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if err := tx.QueryRow(inDatabase("SELECT COUNT(*) FROM {{results}}", s.options.Database)).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), 10); err == nil || !strings.Contains(err.Error(), "make partitions") {
		t.Errorf("Sweep = %v, want that it could not make partitions", err)
	}
	if err := complete(s, acquire(t, s, "k")); err != nil {
		t.Error(err)
	}
}
