package servers_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func TestPgBouncerPassesQueries(t *testing.T) {
	t.Parallel()
	pg := shared.Get(t)
	db := pg.Database(t)
	b := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{})
	pg.PsqlAt(t, db, "CREATE TABLE t (n int); INSERT INTO t VALUES (42)")
	want(t, pg.PsqlAt(t, b.Through(t, db), "TABLE t"), "42")
}

// Seen to fail with PoolSize not passed on.
func TestPgBouncerSharesItsConnections(t *testing.T) {
	t.Parallel()
	pg := shared.Get(t)
	b := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolSize: 1})
	var pids []string
	for _, s := range []*session{openSession(t, b.URL("postgres")), openSession(t, b.URL("postgres"))} {
		s.ask("BEGIN; SELECT pg_backend_pid()")
		pids = append(pids, <-s.answers)
		s.ask("COMMIT")
	}
	want(t, pids[0], pids[1])
	settings := pg.PsqlAt(t, b.URL("pgbouncer"), "SHOW CONFIG")
	for _, line := range []string{"default_pool_size|1|", "pool_mode|transaction|"} {
		if !strings.Contains(settings, "\n"+line) {
			t.Errorf("SHOW CONFIG has no line %q", line)
		}
	}
}

// Seen to fail with auth_user taken out.
func TestPgBouncerLetsEveryRoleIn(t *testing.T) {
	t.Parallel()
	pg := shared.Get(t)
	b := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolMode: "session"})
	pg.Psql(t, "DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN")
	url := strings.Replace(b.URL("postgres"), "postgres@", "clerk@", 1)
	want(t, pg.PsqlAt(t, url, "SELECT current_user"), "clerk")
	want(t, strings.Split(pg.PsqlAt(t, b.URL("pgbouncer"), "SHOW POOLS"), "|")[0], "pgbouncer")
}

func TestPgBouncerComesBack(t *testing.T) {
	t.Parallel()
	pg := shared.Get(t)
	b := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{Settings: map[string]string{"server_lifetime": "1"}})
	url := b.URL("postgres")
	for name, end := range map[string]func(){
		"Kill":    func() { b.Kill(t); b.Start(t) },
		"Restart": func() { b.Restart(t) },
		"Pause":   func() { b.Pause(t); b.Resume(t) },
	} {
		end()
		if got := pg.PsqlAt(t, url, "SELECT 1"); got != "1" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	b.Stop(t)
	if f := failure(t, func(t testing.TB) { pg.PsqlAt(t, url, "SELECT 1") }); !strings.Contains(f, "refused") {
		t.Errorf("stopped, it says %q", f)
	}
}

func TestPgBouncerThatDoesNotStartShowsTheLog(t *testing.T) {
	t.Parallel()
	pg := shared.Get(t)
	f := failure(t, func(t testing.TB) {
		servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolMode: "chaos"})
	})
	if !strings.Contains(f, "chaos") {
		t.Errorf("the failure is %q, want what PgBouncer says", f)
	}
}
