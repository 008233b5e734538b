package mysqlstore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// The contract, for an account that has nothing but the grants, on a server whose clock is an hour behind those of the
// clients. Seen to fail with the time of the program in extend.sql in place of the server's.
func TestContract(t *testing.T) {
	t.Parallel()
	owner, app := granted(t, servers.StartMariaDB(t, servers.MariaDBOptions{
		Env: servers.FakeTime(t, -time.Hour), Settings: shared.Options.Settings,
	}))
	db := openPool(t, app)
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store {
			empty(t, owner)
			return openOn(t, db, Options{})
		},
		Age: func(t *testing.T, s retrysafe.Store, d time.Duration) {
			age(t, owner, d)
			s.(*Store).sweeper.maintained = time.Time{}
		},
		Reopen: func(t *testing.T, s retrysafe.Store) retrysafe.Store {
			if err := s.(*Store).Close(); err != nil {
				t.Fatal(err)
			}
			return openOn(t, openPool(t, app), Options{})
		},
		TooLarge: 16 << 20, // max_allowed_packet
		Walks:    6,
	})
}

// granted returns a store of the tables' owner, and the data source name of an account with the grants.
func granted(t *testing.T, server *servers.MariaDB) (owner *Store, app string) {
	t.Helper()
	dsn := server.Database(t)
	role, app := stranger(t, dsn)
	db := openPool(t, dsn)
	if _, err := Migrate(t.Context(), db, MigrateOptions{Role: role + "@%"}); err != nil {
		t.Fatal(err)
	}
	return openOn(t, db, Options{}), app
}

// What an account with the grants cannot do. Seen to fail with UPDATE on results and on tags in grants.sql, with INSERT
// on migrations, and with the limit of 14 days taken out of the procedure.
func TestGrantsAreNoMore(t *testing.T) {
	t.Parallel()
	owner, app := granted(t, shared.Get(t))
	db := openPool(t, app)
	for _, text := range []string{
		"CREATE TABLE mine (id INT)",
		"DROP TABLE {{claims}}",
		"TRUNCATE {{claims}}",
		"DELETE FROM {{migrations}}",
		"INSERT INTO {{migrations}} (version, name, oldest) VALUES (2, 'two', 1)",
		"UPDATE {{results}} SET body = ''",
		"UPDATE {{steps}} SET data = ''",
		"UPDATE {{tags}} SET tag = ''",
		"ALTER TABLE {{claims}} ADD x INT",
		"ALTER TABLE {{results}} DROP PARTITION before_all",
		"DROP PROCEDURE {{add_days}}",
		"DROP PROCEDURE {{store_complete}}",
	} {
		_, err := db.Exec(inDatabase(text, owner.options.Database))
		if n := errorNumber(err); !slices.Contains([]int{tableDenied, columnDenied, procedureDenied}, n) {
			t.Errorf("%s: got %v, want that it is denied", text, err)
		}
	}
	for _, call := range []string{"CALL {{add_days}} (400)", "CALL {{add_days}} (-1)"} {
		if _, err := db.Exec(inDatabase(call, owner.options.Database)); err != nil {
			t.Errorf("%s: %v", call, err)
		}
		if n := len(partitions(t, owner)); n > 15 {
			t.Errorf("after %s there are %d partitions, want no more than 15", call, n)
		}
	}
}

// The procedure that completes runs with the rights of its caller: the right to call it gives access to no table. Seen
// to fail with SQL SECURITY DEFINER.
func TestProcedureGivesNoRights(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	role, app := stranger(t, shared.Get(t).DSN(s.options.Database))
	execute(t, s, "GRANT EXECUTE ON PROCEDURE {{store_complete}} TO '"+role+"'@'%'")
	call := s.sql.complete.literal(rows{append(leaseValues(acquire(t, s, "k")), 3, 200, 0, 0, 0, 0, "", "")})
	if _, err := openPool(t, app).Exec(call); errorNumber(err) != tableDenied {
		t.Errorf("with the right to call it alone: got %v, want that the table is denied", err)
	}
}

// partitions are the names of the partitions of answers, the oldest first.
func partitions(t *testing.T, s *Store) []string {
	t.Helper()
	return strings.Split(value[string](t, s, `SELECT GROUP_CONCAT(partition_name ORDER BY partition_ordinal_position)
		FROM information_schema.partitions WHERE table_schema = {{database_text}} AND table_name = {{results_text}}`), ",")
}

func TestNamesThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"", "@host", "app@", "a'b", "a`b", `a\`, "PUBLIC", strings.Repeat("a", 81)} {
		if text, err := Grants("shop", role); err == nil {
			t.Errorf("role %q: got %s", role, text)
		}
	}
	db := openPool(t, shared.Get(t).Database(t))
	for _, database := range []string{"a b", "a`b", "a.b", "ä", strings.Repeat("a", 65)} {
		_, err := Migrate(context.Background(), db, MigrateOptions{Database: database})
		if err == nil || !strings.Contains(err.Error(), "letters, digits") {
			t.Errorf("database %q: got %v, want what it may be called", database, err)
		}
	}
}
