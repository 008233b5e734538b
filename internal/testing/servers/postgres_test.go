package servers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func TestPostgresServes(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{Settings: map[string]string{"cluster_name": "it's"}})
	want(t, pg.Psql(t, "SELECT 1, 'a'; SHOW cluster_name"), "1|a\nit's")
	want(t, pg.Psql(t, "SHOW fsync; SHOW synchronous_commit"), "on\non")
}

// Seen to fail with FORCE taken out, and with the drop taken out.
func TestDatabasesAreApartAndDropped(t *testing.T) {
	t.Parallel()
	outer := t
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	t.Run("used", func(t *testing.T) {
		a, b := pg.Database(t), pg.Database(t)
		pg.PsqlAt(t, a, "CREATE TABLE t ()")
		want(t, pg.PsqlAt(t, b, "SELECT to_regclass('t') IS NULL"), "t")
		openSession(outer, a) // still open when its database is dropped
	})
	want(t, pg.Psql(t, "SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'"), "0")
}

// Seen to fail with resume taken out of end: a paused server did not stop.
func TestDataOutlivesTheServer(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	db := pg.Database(t)
	pg.PsqlAt(t, db, "CREATE TABLE t (n int)")
	for name, end := range map[string]func(){
		"Kill":       func() { pg.Kill(t); pg.Start(t) },
		"paused":     func() { pg.Pause(t); pg.Kill(t); pg.Start(t) },
		"Stop":       func() { pg.Stop(t); pg.Start(t) },
		"Pause Stop": func() { pg.Pause(t); pg.Stop(t); pg.Start(t) },
		"Restart":    func() { pg.Restart(t) },
	} {
		pg.PsqlAt(t, db, "DELETE FROM t; INSERT INTO t VALUES (42)")
		before := pg.PID()
		end()
		if pg.PID() == before || pg.PID() == 0 {
			t.Errorf("%s: process %d, before it was %d", name, pg.PID(), before)
		}
		want(t, pg.PsqlAt(t, db, "TABLE t"), "42")
	}
}

// A killed server cannot shut down cleanly: the next start finds the lock file and recovers. A stopped one does not.
//
// Seen to fail with SIGINT in place of SIGKILL.
func TestKillIsACrash(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	pg.Restart(t)
	// in one of several lines; the log is truncated
	recovers := func() bool { return strings.Contains(pg.Log(), "recovery") }
	if recovers() {
		t.Error("after Restart the server recovers")
	}
	pg.Kill(t)
	if pg.PID() != 0 {
		t.Errorf("PID of a killed server = %d", pg.PID())
	}
	pg.Start(t)
	if !recovers() {
		t.Error("after Kill the server does not recover: " + pg.Log())
	}
}

// Seen to fail with only the first process paused: the session's own process answered.
func TestPauseHoldsAQueryUntilResume(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	s := openSession(t, pg.URL("postgres"))
	s.ask("SELECT 'before'")
	want(t, <-s.answers, "before")
	pg.Pause(t)
	s.ask("SELECT 'after'")
	select {
	case got := <-s.answers:
		t.Fatalf("a paused server answered %s", got)
	case <-time.After(200 * time.Millisecond):
	}
	pg.Resume(t)
	want(t, <-s.answers, "after")
}

func TestDataDirIsKept(t *testing.T) {
	t.Parallel()
	dir := reachableFolder(t, "postgres")
	t.Run("first", func(t *testing.T) {
		servers.StartPostgres(t, servers.PostgresOptions{DataDir: dir}).Psql(t, "CREATE TABLE kept ()")
	})
	pg := servers.StartPostgres(t, servers.PostgresOptions{DataDir: dir, Settings: map[string]string{"work_mem": "1MB"}})
	want(t, pg.Psql(t, "SELECT count(*) FROM kept; SHOW work_mem"), "0\n1MB")
}

// Seen to fail with the log taken out of the error.
func TestStartThatFailsShowsTheLog(t *testing.T) {
	t.Parallel()
	_, err := servers.LaunchPostgres(servers.PostgresOptions{Settings: map[string]string{"shared_buffers": "plenty"}})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "shared_buffers": "plenty"`) {
		t.Errorf("LaunchPostgres = %v, want what the server says", err)
	}
}

// Seen to fail with FakeTime's variables not given to the server.
func TestFakeTimePutsTheServersClockWrong(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{time.Hour, -time.Hour} {
		pg := servers.StartPostgres(t, servers.PostgresOptions{Env: servers.FakeTime(t, offset)})
		for range 2 {
			got, err := time.Parse(time.RFC3339,
				pg.Psql(t, `SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`))
			if off := time.Until(got) - offset; err != nil || off.Abs() > 30*time.Second {
				t.Errorf("with an offset of %v the server says %v (%v)", offset, got, err)
			}
			pg.Restart(t)
		}
	}
}
