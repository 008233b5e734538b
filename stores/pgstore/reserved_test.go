package pgstore

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Seen to fail with a word taken out of the list, with one more in it, and with two exchanged.
func TestReservedWordsAreTheServers(t *testing.T) {
	t.Parallel()
	pool := openPool(t, shared.Get(t).Database(t))
	rows, err := pool.Query(t.Context(), `SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')
		UNION SELECT 'system_user' WHERE current_setting('server_version_num')::integer < 160000`) // which has reserved it
	if err != nil {
		t.Fatal(err)
	}
	want, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if got := strings.Fields(reservedWords); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// Nothing is made, and the error is not one of syntax.
// Seen to fail with isReserved answering no: "syntax error at or near".
func TestReservedSchemaIsRefused(t *testing.T) {
	t.Parallel()
	pool := openPool(t, shared.Get(t).Database(t))
	for _, name := range []string{"full", "user", "order", "table", "system_user"} {
		_, migrated := Migrate(t.Context(), pool, MigrateOptions{Schema: name})
		_, opened := New(t.Context(), pool, Options{Schema: name})
		_, scripted := Script(ScriptOptions{Schema: name})
		_, granted := Grants(name, "app")
		_, _, versioned := SchemaVersion(t.Context(), pool, name)
		for i, err := range []error{migrated, opened, scripted, granted, versioned} {
			if err == nil || !strings.Contains(err.Error(), "reserves the word") {
				t.Errorf("schema %q, call %d: %v, want that the word is reserved", name, i, err)
			}
		}
	}
}

// Words that SQL knows but does not reserve are names as good as others.
func TestSchemaNamedByAWordOfSQL(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"between", "coalesce", "day", "public", "schema", "values"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openAt(t, shared.Get(t).Database(t), Options{Schema: name})
			callEverything(t, s, 2)
			sweepOnce(t, s, 10)
		})
	}
}
