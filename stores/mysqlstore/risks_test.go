package mysqlstore

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

func TestRisks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings map[string]string
		want     []string
	}{
		"as it comes": {nil, nil},
		"careless": {
			map[string]string{
				"innodb-flush-log-at-trx-commit": "2", "innodb-doublewrite": "OFF", "innodb-flush-method": "nosync",
				"log-bin": "log", "sync-binlog": "0",
			},
			[]string{
				"innodb_flush_log_at_trx_commit = 2", "innodb_flush_method = nosync", "innodb_doublewrite = OFF",
				"sync_binlog = 0", "log_bin = ON without semi-synchronous replication",
			},
		},
		"semi-synchronous": {
			map[string]string{"log-bin": "log", "rpl-semi-sync-master-enabled": "ON", "rpl-semi-sync-master-timeout": "1"},
			[]string{"semi-synchronous replication with the wait point AFTER_COMMIT"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openAt(t, servers.StartMariaDB(t, servers.MariaDBOptions{Settings: c.settings}).Database(t), Options{})
			if got := testkit.Settings(t, s); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			execute(t, s, "ALTER TABLE {{steps}} ENGINE = MyISAM")
			if got := testkit.Settings(t, s); !slices.ContainsFunc(got, func(r string) bool {
				return strings.Contains(r, "retrysafe_steps (MyISAM)")
			}) {
				t.Errorf("got %q, want the table that is not InnoDB's", got)
			}
		})
	}
}

// With 2 the operating system has what was committed: only a machine that crashes loses it.
func TestWhatFlushingLoses(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"0": "the server or its machine crashes", "2": "the machine crashes or loses its power"} {
		got := variables{"innodb_flush_log_at_trx_commit": value, "innodb_doublewrite": "ON"}.risks()
		if len(got) != 1 || !strings.HasPrefix(got[0].Loses, "If "+want) {
			t.Errorf("%s: %+v, want that it loses something if %s", value, got, want)
		}
	}
}

// The account of a service that can read the tables is named once, whatever grant lets it, and only for the database whose
// procedures it calls; also if a role of a role lets it. Seen to fail without "mysql.roles_mapping", with each of the three
// tables taken out of wide_rights.sql, with each of its conditions, with column_priv taken out, and with
// = for LIKE.
func TestWideRightsAreRisks(t *testing.T) {
	t.Parallel()
	s, other := openShop(t, nil), openShop(t, nil)
	accountOf := func(of *shop) string {
		user := value[string](t, &Store{db: of.db, options: s.owner.options}, "SELECT CURRENT_USER()")
		return "'" + strings.TrimSuffix(user, "@%") + "'@'%'"
	}
	service, bystander := accountOf(s), accountOf(other)
	named := func(store *Store) (times int) {
		for _, r := range testkit.Settings(t, store) {
			times += strings.Count(r, service)
		}
		return times
	}
	if named(s.owner) != 0 {
		t.Error("an account with the service grants is named")
	}
	database := s.owner.options.Database
	for _, c := range []struct {
		right, on, to string
		want          int
	}{
		{"SELECT", "*.*", service, 1},
		{"SELECT", "`" + database + "`.*", service, 1},
		{"SELECT", "`" + database[:4] + "%`.*", service, 1},
		{"SELECT", "{{results}}", service, 1},
		{"SELECT", "{{records}}", service, 1},
		{"SELECT (body)", "{{results}}", service, 1},
		{"INSERT", "`" + database + "`.*", service, 0},
		{"INSERT", "{{results}}", service, 0},
		{"SELECT", inDatabase("{{results}}", other.owner.options.Database), service, 0},
		{"SELECT", "`" + database + "`.*", bystander, 0},
		{"SELECT", "{{results}}", bystander, 0},
	} {
		grant := c.right + " ON " + c.on
		execute(t, s.owner, "GRANT "+grant+" TO "+c.to)
		if n := named(s.owner); n != c.want {
			t.Errorf("with %s for %s the service's account is named %d times, want %d", grant, c.to, n, c.want)
		}
		if named(other.owner) != 0 {
			t.Errorf("with %s the account is named for a database whose procedures it cannot call", grant)
		}
		execute(t, s.owner, "REVOKE "+grant+" FROM "+c.to)
	}
	// Roles, of which one is in another.
	inner, outer := "r"+rand.Text()[:20], "r"+rand.Text()[:20]
	for _, role := range []string{inner, outer} {
		execute(t, s.owner, "CREATE ROLE "+role)
		t.Cleanup(func() { execute(t, s.owner, "DROP ROLE "+role) })
	}
	execute(t, s.owner, "GRANT "+inner+" TO "+outer)
	execute(t, s.owner, "GRANT "+outer+" TO "+service)
	if named(s.owner) != 0 {
		t.Error("a service with roles that may nothing is named")
	}
	execute(t, s.owner, "GRANT SELECT ON {{results}} TO "+inner)
	if n := named(s.owner); n != 1 {
		t.Errorf("with a role that can read the answers the service's account is named %d times, want once", n)
	}
	_, app := granted(t, shared.Get(t))
	if _, err := openOn(t, openPool(t, app), Options{}).Risks(t.Context()); err != nil {
		t.Errorf("Risks under the grants: %v", err)
	}
}

// The binary log's format STATEMENT cannot be used, and the error says what to do.
func TestStatementFormatSaysSo(t *testing.T) {
	t.Parallel()
	server := servers.StartMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{"log-bin": "log"}})
	dsn := server.Database(t)
	execute(t, openAt(t, dsn, Options{}), "SET GLOBAL binlog_format = STATEMENT")
	s := openOn(t, openPool(t, dsn), Options{}) // sessions that begin later have it
	if _, err := s.Claim(t.Context(), params("k")); err == nil || !strings.Contains(err.Error(), "ROW or MIXED") {
		t.Errorf("got %v, want what to do", err)
	}
}
