package mysqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe/internal/testing/sqlfunctions"
)

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	db := openPool(t, shared.Get(t).Database(t))
	var applied atomic.Int64
	together(t, 8, func(int) error {
		all, err := Migrate(context.Background(), db, MigrateOptions{})
		applied.Add(int64(len(all)))
		return err
	})
	if got := applied.Load(); got != int64(newestVersion()) {
		t.Errorf("8 at once have applied %d migrations together, want %d", got, newestVersion())
	}
	if got, newest, err := SchemaVersion(context.Background(), db, ""); err != nil || got != newest {
		t.Errorf("SchemaVersion = %d, %d, %v", got, newest, err)
	}
}

// A migration that has failed in the middle is continued.
func TestMigrateContinues(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	acquire(t, s, "k")
	all, err := Migrations(s.options.Database)
	if err != nil {
		t.Fatal(err)
	}
	for n := range all[0].statements() {
		execute(t, s, "DELETE FROM {{migrations}}")
		for _, text := range all[0].statements()[:n] {
			execute(t, s, text)
		}
		applied, err := Migrate(t.Context(), s.db, MigrateOptions{})
		if err != nil || len(applied) != len(all) {
			t.Fatalf("after %d statements: %d migrations, %v", n, len(applied), err)
		}
	}
	if n := value[int](t, s, "SELECT COUNT(*) FROM {{claims}}"); n != 1 {
		t.Errorf("%d records, want the one of before", n)
	}
}

// A program goes on with the schema of a newer one that says so, and leaves it as it is; so it can run beside that,
// and be gone back to.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	known := newestVersion()
	for oldest, fits := range map[int]bool{1: true, known: true, known + 1: false} {
		execute(t, s, "DELETE FROM {{migrations}} WHERE version = 999")
		execute(t, s, fmt.Sprintf("INSERT INTO {{migrations}} (version, name, oldest) VALUES (999, 'future', %d)", oldest))
		other, err := New(t.Context(), s.db, Options{})
		if fits != (err == nil) || !fits && !errors.Is(err, ErrNewerSchema) {
			t.Errorf("New, with oldest %d = %v, want that it works: %v", oldest, err, fits)
		}
		if err == nil {
			acquire(t, other, fmt.Sprint("key of ", oldest))
			other.Close()
		}
		applied, err := Migrate(t.Context(), s.db, MigrateOptions{})
		if fits != (err == nil) || len(applied) > 0 || !fits && !errors.Is(err, ErrNewerSchema) {
			t.Errorf("Migrate, with oldest %d = %v, %v", oldest, applied, err)
		}
	}
}

// Seen to fail with a blank added to a migration.
func TestMigrationsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	sqlfunctions.Migrations(t, migrationFiles, "migrations/*.sql", map[string]string{
		"migrations/001_records.sql":             "0c44c10463821070",
		"migrations/002_procedures.sql":          "ba4ba516b651e2a0",
		"migrations/003_repairs.sql":             "a472f9d540e19a99",
		"migrations/004_interrupts.sql":          "094b62734d9c9408",
		"migrations/005_activity.sql":            "39ea0fe5ceda32fb",
		"migrations/procedures.sql of version 5": "f4f6ff00e8bd91e8",
	})
}

func TestMissingSchemaIsRefused(t *testing.T) {
	t.Parallel()
	dsn := shared.Get(t).Database(t)
	_, err := New(t.Context(), openPool(t, dsn), Options{})
	if !errors.Is(err, ErrNoSchema) || !strings.Contains(err.Error(), "migrate up") {
		t.Errorf("New = %v, want ErrNoSchema, and what to do", err)
	}
	none := openPool(t, withParams(t, dsn, func(c *mysql.Config) { c.DBName = "" }))
	if _, err := New(t.Context(), none, Options{}); err == nil || !strings.Contains(err.Error(), "Options.Database") {
		t.Errorf("New without a database = %v, want what to do", err)
	}
}

// The tables may be in another database than the one that connections have selected.
func TestOptionsDatabase(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	elsewhere := openPool(t, shared.Get(t).Database(t))
	other := openOn(t, elsewhere, Options{Database: s.options.Database})
	l := acquire(t, other, "k")
	if err := complete(s, l); err != nil {
		t.Errorf("the other store does not see its record: %v", err)
	}
}
