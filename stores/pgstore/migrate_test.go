package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/internal/testing/sqlfunctions"
)

// Seen to fail with the advisory lock taken out of prepare: CREATE SCHEMA collided; and with pgx.BeginFunc, where the
// default is serializable: who has waited for the lock sees the database as it was before, and makes the tables
// again.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	for _, defaults := range []string{"", strict} {
		t.Run(defaults, func(t *testing.T) {
			t.Parallel()
			migrateAtOnce(t, openPool(t, shared.Get(t).Database(t)+"&pool_max_conns=8"+defaults))
		})
	}
}

func migrateAtOnce(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var applied atomic.Int64
	together(t, 8, func(int) error {
		all, err := Migrate(context.Background(), pool, MigrateOptions{})
		applied.Add(int64(len(all)))
		return err
	})
	if got := applied.Load(); got != int64(newestVersion()) {
		t.Errorf("8 at once have applied %d migrations together, want %d", got, newestVersion())
	}
	if got, newest, err := SchemaVersion(context.Background(), pool, ""); err != nil || got != newest {
		t.Errorf("SchemaVersion = %d, %d, %v", got, newest, err)
	}
}

// Seen to fail with the comparison taken out of checkVersion, and out of migrate.
func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	execute(t, s, "INSERT INTO {{schema}}.migrations (version, name) VALUES (999, 'of the future')")
	if _, err := New(context.Background(), s.pool, Options{}); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("New = %v, want ErrNewerSchema", err)
	}
	if _, err := Migrate(context.Background(), s.pool, MigrateOptions{}); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("Migrate = %v, want ErrNewerSchema", err)
	}
}

// A program goes on with the schema of a newer one that says so, and leaves it as it is; so it can run beside that,
// and be gone back to. Seen to fail with fits comparing the versions alone.
func TestNewerSchemaThatFits(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	known := newestVersion()
	for oldest, fits := range map[int]bool{1: true, known: true, known + 1: false} {
		execute(t, s, "DELETE FROM {{schema}}.migrations WHERE version = 999")
		execute(t, s, "INSERT INTO {{schema}}.migrations (version, name, oldest) VALUES (999, 'of the future', $1)", oldest)
		other, err := New(t.Context(), s.pool, Options{})
		if fits != (err == nil) || !fits && !errors.Is(err, ErrNewerSchema) {
			t.Errorf("New, with oldest %d = %v, want that it works: %v", oldest, err, fits)
		}
		if err == nil {
			acquire(t, other, fmt.Sprint("key of ", oldest))
			other.Close()
		}
		applied, err := Migrate(t.Context(), s.pool, MigrateOptions{})
		if fits != (err == nil) || len(applied) > 0 {
			t.Errorf("Migrate, with oldest %d = %v, %v", oldest, applied, err)
		}
	}
}

// migrateTo makes the schema of an older version.
func migrateTo(t *testing.T, pool *pgxpool.Pool, to int) {
	t.Helper()
	all, err := Migrations("")
	if err != nil {
		t.Fatal(err)
	}
	script := "CREATE SCHEMA retrysafe; CREATE TABLE retrysafe.migrations (version integer PRIMARY KEY, name text " +
		"NOT NULL, " +
		"applied_at timestamptz NOT NULL DEFAULT now());" // as version 1 had it
	for _, m := range all[:to] {
		script += m.SQL + fmt.Sprintf("INSERT INTO retrysafe.migrations (version, name) VALUES (%d, '%s');",
			m.Version, m.Name)
	}
	if _, err := pool.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

// The schema of version 1 becomes that of today while a store of that time works on, which can also be opened again
// afterwards. The contract holds on it, also where the default is a stricter isolation. Seen to fail with the oldest of
// 002 set to 2.
func TestMigrateBesideAnOlderProgram(t *testing.T) {
	t.Parallel()
	pool := openPool(t, shared.Get(t).Database(t))
	migrateTo(t, pool, 1)
	if err := checkVersion(t.Context(), pool, "retrysafe", 1); err != nil {
		t.Errorf("before: %v", err)
	}
	if _, err := New(t.Context(), pool, Options{}); !errors.Is(err, ErrNoSchema) {
		t.Errorf("a newer program: got %v, want ErrNoSchema", err)
	}
	// as version 1 calls it
	old := fmt.Sprintf("SELECT retrysafe.add_days(retrysafe.clock() / 86400000000, %d)", daysAhead)
	if _, err := pool.Exec(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	applied, err := Migrate(t.Context(), pool, MigrateOptions{})
	if err != nil || len(applied) != newestVersion()-1 {
		t.Fatalf("Migrate = %d migrations, %v", len(applied), err)
	}
	if err := checkVersion(t.Context(), pool, "retrysafe", 1); err != nil {
		t.Errorf("the older program, after the migration: %v", err)
	}
	if _, err := pool.Exec(t.Context(), old); err != nil {
		t.Errorf("the older program, after the migration: %v", err)
	}
	runContract(t, pool.Config().ConnString()+strict, Options{})
}

// The script brings a schema of version 1 up to date too, and run again it changes nothing.
// Seen to fail with the migrations not inside IF: the tables were there already.
func TestScriptUpgrades(t *testing.T) {
	t.Parallel()
	pool := openPool(t, shared.Get(t).Database(t))
	migrateTo(t, pool, 1)
	script, err := Script(ScriptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := pool.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		if err := CheckSchema(t.Context(), pool, ""); err != nil {
			t.Error(err)
		}
	}
}

// Seen to fail with a blank added to 001_records.sql.
func TestMigrationsStay(t *testing.T) {
	sqlfunctions.Migrations(t, migrationFiles, "migrations/*.sql", map[string]string{
		"migrations/001_records.sql":            "2daff4508fa42d9e",
		"migrations/002_few_days.sql":           "f9f6115c4a80d124",
		"migrations/003_functions.sql":          "adee2a9f6173e4a8",
		"migrations/004_hold.sql":               "610b3f766ff1dbb8",
		"migrations/005_spellings.sql":          "8c2d3f6cf175dbd0",
		"migrations/006_tags.sql":               "8957cca1600efb74",
		"migrations/007_states.sql":             "685259d14ae7d8a0",
		"migrations/008_scopes.sql":             "91fc75a2e52ad2dd",
		"migrations/009_one_statement.sql":      "c27f273a70c9acd3",
		"migrations/functions.sql of version 9": "96b77999bb499df9",
	})
}

// The schema of a build that was never released had other tables. Seen to fail with the hint taken out of migrate.
func TestUnreleasedSchemaIsNamed(t *testing.T) {
	t.Parallel()
	pool := openPool(t, shared.Get(t).Database(t))
	migrateTo(t, pool, 1)
	if _, err := pool.Exec(t.Context(), "ALTER TABLE retrysafe.locks RENAME TO chores"); err != nil {
		t.Fatal(err)
	}
	if _, err := Migrate(t.Context(), pool, MigrateOptions{}); err == nil || !strings.Contains(err.Error(), "unreleased build") {
		t.Errorf("Migrate = %v, want that it names an unreleased build", err)
	}
}

func TestMissingSchemaIsRefused(t *testing.T) {
	t.Parallel()
	pool := openPool(t, shared.Get(t).Database(t))
	_, err := New(context.Background(), pool, Options{})
	if !errors.Is(err, ErrNoSchema) || !strings.Contains(err.Error(), "migrate up") {
		t.Errorf("New = %v, want ErrNoSchema, and what to do", err)
	}
}

// Seen to fail with readOnlyTransaction taken out of explain.
func TestReadOnlyServersSaySo(t *testing.T) {
	t.Parallel()
	url := shared.Get(t).Database(t)
	openAt(t, url, Options{})
	s, err := New(t.Context(), openPool(t, url+"&default_transaction_read_only=on"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := s.Claim(t.Context(), params("k")); err == nil ||
		!strings.Contains(err.Error(), "target_session_attrs=read-write") {
		t.Errorf("got %v, want what to do", err)
	}
}

// Schemas are apart from each other.
func TestSchemasOfOneDatabase(t *testing.T) {
	t.Parallel()
	url := shared.Get(t).Database(t)
	one, other := openAt(t, url, Options{Schema: "one"}), openAt(t, url, Options{Schema: "other"})
	acquire(t, one, "k")
	acquire(t, other, "k")
}

// Seen to fail with checkSchema returning nil.
func TestSchemaNames(t *testing.T) {
	t.Parallel()
	pool := openPool(t, shared.Get(t).Database(t))
	for _, name := range []string{
		"Upper", "pg_mine", "1st", "a b", `a"; DROP TABLE x; --`, "a.b",
		strings.Repeat("a", 41), "ä",
	} {
		_, err := Migrate(context.Background(), pool, MigrateOptions{Schema: name})
		_, opened := New(context.Background(), pool, Options{Schema: name})
		for _, err := range []error{err, opened} {
			if err == nil || !strings.Contains(err.Error(), "lower-case letters") {
				t.Errorf("schema %q: %v, want what a schema may be called", name, err)
			}
		}
	}
}
