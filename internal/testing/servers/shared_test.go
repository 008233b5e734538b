package servers_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Seen to fail with once taken out.
func TestSharedPostgresIsOneServer(t *testing.T) {
	t.Setenv("RETRYSAFE_TEST_POSTGRES", "")
	var shared servers.SharedPostgres
	var pids []int
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) { pids = append(pids, shared.Get(t).PID()) })
	}
	if len(pids) != 2 || pids[0] == 0 || pids[0] != pids[1] {
		t.Errorf("the tests' servers are %d: want one", pids)
	}
	if err := shared.Get(t).Close(); err != nil {
		t.Error(err)
	}
}

func TestSharedPostgresThatDoesNotStartFailsEveryTest(t *testing.T) {
	t.Setenv("RETRYSAFE_TEST_POSTGRES", "")
	shared := servers.SharedPostgres{Options: servers.PostgresOptions{Settings: map[string]string{"port": "none"}}}
	for range 2 {
		if f := failure(t, func(t testing.TB) { shared.Get(t) }); !strings.Contains(f, `"port"`) {
			t.Errorf("Get fails with %q, want what the server says", f)
		}
	}
}

// Seen to fail with the variable not read.
func TestGivenServerIsUsedAndNotTouched(t *testing.T) {
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	t.Setenv("RETRYSAFE_TEST_POSTGRES", pg.URL("postgres"))
	var shared servers.SharedPostgres
	given := shared.Get(t)
	t.Run("database", func(t *testing.T) {
		want(t, given.PsqlAt(t, given.Database(t), "SELECT 1"), "1")
		want(t, pg.Psql(t, "SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'"), "1")
		b := servers.StartPgBouncer(t, given, servers.PgBouncerOptions{})
		want(t, given.PsqlAt(t, b.URL("postgres"), "SHOW port"), pg.Psql(t, "SHOW port"))
	})
	want(t, pg.Psql(t, "SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'"), "0")
	for name, f := range map[string]func(t testing.TB){
		"Kill":         func(t testing.TB) { given.Kill(t) },
		"Stop":         func(t testing.TB) { given.Stop(t) },
		"Start":        func(t testing.TB) { given.Start(t) },
		"Restart":      func(t testing.TB) { given.Restart(t) },
		"Pause":        func(t testing.TB) { given.Pause(t) },
		"Resume":       func(t testing.TB) { given.Resume(t) },
		"StartStandby": func(t testing.TB) { given.StartStandby(t, false) },
	} {
		if got := failure(t, f); !strings.Contains(got, "RETRYSAFE_TEST_POSTGRES") {
			t.Errorf("%s: the failure is %q", name, got)
		}
	}
	if err := given.Close(); err != nil {
		t.Error(err)
	}
	want(t, pg.Psql(t, "SELECT 1"), "1")
}
