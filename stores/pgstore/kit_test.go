package pgstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// shared is the server of all tests that do not harm it. It syncs nothing: no test here takes the power away, and the
// disk's moods would be most of their time.
var shared = servers.SharedPostgres{Options: servers.PostgresOptions{Settings: map[string]string{
	"fsync": "off", "full_page_writes": "off", "max_wal_size": "2GB", "max_prepared_transactions": "10",
}}}

// strict is what makes all transactions of a connection serializable.
const strict = "&default_transaction_isolation=serializable"

// Words that the tests of several stores share.
var (
	params, acquire, complete = testkit.Params, testkit.Acquire, testkit.Complete
	together, eventually      = testkit.Together, testkit.Eventually
	completeMany, sweepOnce   = testkit.CompleteMany, testkit.Sweep
)

// openPool connects to a database, for as long as the test runs.
func openPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// openAt returns a store on a migrated database.
func openAt(t testing.TB, url string, o Options) *Store {
	t.Helper()
	pool := openPool(t, url)
	if _, err := Migrate(context.Background(), pool, MigrateOptions{Schema: o.Schema}); err != nil {
		t.Fatal(err)
	}
	return openOn(t, pool, o)
}

// openOn returns a store over connections that are there, on a migrated database.
func openOn(t testing.TB, pool *pgxpool.Pool, o Options) *Store {
	t.Helper()
	s, err := New(context.Background(), pool, o)
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

// makeDays makes the partitions of any days that are not there, as their owner can.
func makeDays(t testing.TB, s *Store, first, days int) {
	t.Helper()
	execute(t, s, fmt.Sprintf(`DO $$
		DECLARE part text;
		BEGIN
			FOR day IN %d .. %d LOOP
				part := 'results_' || to_char(date '1970-01-01' + day, 'YYYYMMDD');
				CONTINUE WHEN to_regclass('{{schema}}.' || part) IS NOT NULL;
				EXECUTE format('CREATE TABLE {{schema}}.%%I PARTITION OF {{schema}}.results FOR VALUES FROM (%%s) TO (%%s)',
					part, day * 86400000000, (day + 1) * 86400000000);
			END LOOP;
		END $$`, first, first+days-1))
}

// empty forgets everything in a store's database, also what running statements are about to write. DELETE costs a
// hundredth of TRUNCATE here, which gives each of the tables, partitions and indexes a new file.
func empty(t testing.TB, s *Store) {
	t.Helper()
	execute(t, s, `BEGIN; LOCK TABLE {{schema}}.claims, {{schema}}.older, {{schema}}.steps, {{schema}}.results, {{schema}}.tags,
			{{schema}}.sightings;
		DELETE FROM {{schema}}.claims; DELETE FROM {{schema}}.older; DELETE FROM {{schema}}.steps; DELETE FROM {{schema}}.results;
		DELETE FROM {{schema}}.tags; DELETE FROM {{schema}}.sightings; COMMIT`)
}

func execute(t testing.TB, s *Store, text string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(context.Background(), inSchema(text, s.options.Schema), args...); err != nil {
		t.Fatal(err)
	}
}

// age lets time pass by moving everything that is stored into the past, for which it makes the days that answers move
// to.
func age(t testing.TB, s *Store, d time.Duration) {
	t.Helper()
	for _, day := range value[[]int](t, s,
		"SELECT coalesce(array_agg(DISTINCT (ended_at - $1) / 86400000000), '{}') FROM {{schema}}.results",
		d.Microseconds()) {
		makeDays(t, s, day, 1)
	}
	for _, table := range []string{"claims", "older"} {
		execute(t, s, `UPDATE {{schema}}.`+table+` SET claimed_at = claimed_at - $1, ends_at = CASE WHEN ends_at > 0 THEN ends_at - $1 ELSE 0 END,
			sweep_at = CASE WHEN ends_at = 0 THEN sweep_at - $1 / 60000000
				ELSE (ends_at - $1 + CASE WHEN state > 2 THEN greatest(keep_key, keep_audit) ELSE keep_key END) / 60000000 END`, d.Microseconds())
	}
	execute(t, s, `UPDATE {{schema}}.sightings SET first_at = first_at - $1, last_at = last_at - $1`, d.Microseconds())
	execute(t, s, `UPDATE {{schema}}.results SET ended_at = ended_at - $1, keep_until = keep_until - $1`, d.Microseconds())
	s.sweeper.low, s.sweeper.indexed = 0, time.Time{}
}
