package pgstore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Seen to fail with the advisory lock taken out of prepare: CREATE SCHEMA collided; and with pgx.BeginFunc, where the default is
// serializable: who has waited for the lock sees the database as it was before, and makes the tables again.
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

func TestMissingSchemaIsRefused(t *testing.T) {
	t.Parallel()
	pool := openPool(t, shared.Get(t).Database(t))
	_, err := New(context.Background(), pool, Options{})
	if !errors.Is(err, ErrNoSchema) || !strings.Contains(err.Error(), "migrate up") {
		t.Errorf("New = %v, want ErrNoSchema, and what to do", err)
	}
}

// Schemas are apart from each other.
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
	if _, err := s.Claim(t.Context(), params("k")); err == nil || !strings.Contains(err.Error(), "target_session_attrs=read-write") {
		t.Errorf("got %v, want what to do", err)
	}
}

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
	for _, name := range []string{"Upper", "pg_mine", "1st", "a b", `a"; DROP TABLE x; --`, "a.b", strings.Repeat("a", 41), "ä"} {
		_, err := Migrate(context.Background(), pool, MigrateOptions{Schema: name})
		_, opened := New(context.Background(), pool, Options{Schema: name})
		for _, err := range []error{err, opened} {
			if err == nil || !strings.Contains(err.Error(), "lower-case letters") {
				t.Errorf("schema %q: %v, want what a schema may be called", name, err)
			}
		}
	}
}
