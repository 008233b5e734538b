package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// shared is the server of all tests that do not harm it. It syncs nothing: no test here takes the power away, and the
// disk's moods would be most of their time.
var shared = servers.SharedMariaDB{Options: servers.MariaDBOptions{Settings: map[string]string{
	"innodb-flush-log-at-trx-commit": "0",
}}}

// Words that the tests of several stores share.
var (
	params, acquire, complete = testkit.Params, testkit.Acquire, testkit.Complete
	together, eventually      = testkit.Together, testkit.Eventually
	completeMany, sweepOnce   = testkit.CompleteMany, testkit.Sweep

	tagsOf, claimTagged, findIDs = testkit.TagsOf, testkit.AcquireTagged, testkit.FindIDs
)

// openPool connects to a database, for as long as the test runs.
func openPool(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// openAt returns a store on a migrated database.
func openAt(t testing.TB, dsn string, o Options) *Store {
	t.Helper()
	db := openPool(t, dsn)
	if _, err := Migrate(context.Background(), db, MigrateOptions{Database: o.Database}); err != nil {
		t.Fatal(err)
	}
	return openOn(t, db, o)
}

// openOn returns a store over a pool that is there, on a migrated database.
func openOn(t testing.TB, db *sql.DB, o Options) *Store {
	t.Helper()
	s, err := New(context.Background(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// openTest returns a store on a database of its own.
func openTest(t testing.TB) *Store {
	t.Helper()
	return openAt(t, shared.Get(t).Database(t), Options{})
}

// empty forgets everything in a store's database.
func empty(t testing.TB, s *Store) {
	t.Helper()
	for _, table := range []string{"claims", "older", "steps", "results", "tags", "sightings"} {
		execute(t, s, "DELETE FROM {{"+table+"}}")
	}
}

func execute(t testing.TB, s *Store, text string) (rows int64) {
	t.Helper()
	result, err := s.db.ExecContext(context.Background(), inDatabase(text, s.options.Database))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	rows, err = result.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// value reads one value from a store's database.
func value[T any](t testing.TB, s *Store, text string) (v T) {
	t.Helper()
	row := s.db.QueryRowContext(context.Background(), inDatabase(text, s.options.Database))
	if err := row.Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// age lets time pass by moving everything that is stored into the past. The server sets columns from left to right.
func age(t testing.TB, s *Store, d time.Duration) {
	t.Helper()
	by := d.Microseconds()
	for _, table := range []string{"claims", "older"} {
		execute(t, s, fmt.Sprintf(`UPDATE {{%s}} SET claimed_at = claimed_at - %d,
			sweep_at = CASE WHEN ends_at = 0 THEN sweep_at - %[2]d DIV 60000000 ELSE (ends_at - %[2]d
				+ CASE WHEN state > 2 THEN GREATEST(keep_key, keep_audit) ELSE keep_key END) DIV 60000000 END,
			ends_at = CASE WHEN ends_at > 0 THEN ends_at - %[2]d ELSE 0 END`, table, by))
	}
	execute(t, s, fmt.Sprintf("UPDATE {{sightings}} SET first_at = first_at - %d, last_at = last_at - %[1]d", by))
	execute(t, s, fmt.Sprintf(`UPDATE {{results}} SET ended_at = ended_at - %d, keep_until = keep_until - %[1]d
		ORDER BY ended_at`, by))
}
