package servers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Commits wait for the disk, as they do in production.
//
// Seen to fail with the defaults written after the settings of the test, and with innodb-flush-log-at-trx-commit 2.
func TestMariaDBServes(t *testing.T) {
	t.Parallel()
	m := servers.StartMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{"max_connections": "77"}})
	want(t, m.SQL(t, "SELECT 1, 'ä'; SELECT @@max_connections"), "1\tä\n77")
	want(t, m.SQL(t, "SELECT @@innodb_flush_log_at_trx_commit, @@character_set_database"), "1\tutf8mb4")
}

// The connection that is still open has a transaction, for which a drop waits.
//
// Seen to fail with the connections not closed, and with the drop taken out.
func TestDatabasesOfMariaDBAreApartAndDropped(t *testing.T) {
	t.Parallel()
	outer := t
	m := servers.StartMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{"lock_wait_timeout": "1"}})
	t.Run("used", func(t *testing.T) {
		a, b := m.Database(t), m.Database(t)
		m.SQLAt(t, a, "CREATE TABLE t (n int)")
		want(t, m.SQLAt(t, b, "SHOW TABLES"), "")
		want(t, m.SQLAt(t, a, "SHOW TABLES"), "t")
		s := openMariaDBSession(outer, m, a)
		s.ask("BEGIN; SELECT count(*) FROM t")
		want(t, <-s.answers, "0")
	})
	want(t, m.SQL(t, "SHOW DATABASES LIKE 'test%'"), "")
}

// Seen to fail with tables in memory.
func TestDataOutlivesMariaDB(t *testing.T) {
	t.Parallel()
	m := servers.StartMariaDB(t, servers.MariaDBOptions{})
	db := m.Database(t)
	m.SQLAt(t, db, "CREATE TABLE t (n int)")
	for name, end := range map[string]func(){
		"Kill":       func() { m.Kill(t); m.Start(t) },
		"paused":     func() { m.Pause(t); m.Kill(t); m.Start(t) },
		"Pause Stop": func() { m.Pause(t); m.Stop(t); m.Start(t) },
		"Restart":    func() { m.Restart(t) },
	} {
		m.SQLAt(t, db, "DELETE FROM t; INSERT INTO t VALUES (42)")
		before := m.PID()
		end()
		if m.PID() == before || m.PID() == 0 {
			t.Errorf("%s: process %d, before it was %d", name, m.PID(), before)
		}
		want(t, m.SQLAt(t, db, "SELECT n FROM t"), "42")
	}
}

// Seen to fail with Stop in place of Kill.
func TestKillIsACrashOfMariaDB(t *testing.T) {
	t.Parallel()
	m := servers.StartMariaDB(t, servers.MariaDBOptions{})
	recovers := func() bool { return strings.Contains(m.Log(), "crash recovery") }
	m.Restart(t)
	if recovers() {
		t.Error("after Restart the server recovers: " + m.Log())
	}
	m.SQLAt(t, m.Database(t), "CREATE TABLE t (n int)") // something to recover
	m.Kill(t)
	m.Start(t)
	if !recovers() {
		t.Error("after Kill the server does not recover: " + m.Log())
	}
}

// Seen to fail with Pause doing nothing.
func TestPauseHoldsAStatementOfMariaDB(t *testing.T) {
	t.Parallel()
	m := servers.StartMariaDB(t, servers.MariaDBOptions{})
	s := openMariaDBSession(t, m, m.DSN("mysql"))
	m.Pause(t)
	s.ask("SELECT 'after'")
	select {
	case got := <-s.answers:
		t.Fatalf("a paused server answered %s", got)
	case <-time.After(200 * time.Millisecond):
	}
	m.Resume(t)
	want(t, <-s.answers, "after")
}

// Seen to fail with DataDir ignored.
func TestDataDirOfMariaDBIsKept(t *testing.T) {
	t.Parallel()
	dir := reachableFolder(t, "mysql")
	t.Run("first", func(t *testing.T) {
		servers.StartMariaDB(t, servers.MariaDBOptions{DataDir: dir}).SQL(t, "CREATE DATABASE kept")
	})
	m := servers.StartMariaDB(t, servers.MariaDBOptions{DataDir: dir})
	want(t, m.SQL(t, "SHOW DATABASES LIKE 'kept'"), "kept")
}

func TestMariaDBThatDoesNotStartShowsTheLog(t *testing.T) {
	t.Parallel()
	_, err := servers.LaunchMariaDB(servers.MariaDBOptions{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "unknown variable 'no_such_setting=1'") {
		t.Errorf("LaunchMariaDB = %v, want what the server says", err)
	}
}

// Seen to fail with FakeTime's variables not given to the server.
func TestFakeTimePutsTheClockOfMariaDBWrong(t *testing.T) {
	t.Parallel()
	m := servers.StartMariaDB(t, servers.MariaDBOptions{Env: servers.FakeTime(t, -time.Hour)})
	got, err := time.Parse(time.DateTime, m.SQL(t, "SELECT UTC_TIMESTAMP()"))
	if off := time.Until(got) + time.Hour; err != nil || off.Abs() > 30*time.Second {
		t.Errorf("an hour behind, the server says %v (%v)", got, err)
	}
}

// Seen to fail with once taken out.
func TestSharedMariaDBIsOneServer(t *testing.T) {
	t.Setenv("RETRYSAFE_TEST_MYSQL", "")
	var shared servers.SharedMariaDB
	if a, b := shared.Get(t).PID(), shared.Get(t).PID(); a == 0 || a != b {
		t.Errorf("the servers are %d and %d: want one", a, b)
	}
	if err := shared.Get(t).Close(); err != nil {
		t.Error(err)
	}
}

// Seen to fail with the variable not read, and with the password and the parameters left out.
func TestGivenMariaDBIsUsedAndNotTouched(t *testing.T) {
	m := servers.StartMariaDB(t, servers.MariaDBOptions{})
	m.SQL(t, "CREATE USER boss IDENTIFIED BY 'pass:word'; GRANT ALL ON *.* TO boss")
	at := strings.TrimPrefix(m.DSN(""), "root@")
	t.Setenv("RETRYSAFE_TEST_MYSQL", "boss:pass:word@"+at+"?timeout=9s")
	var shared servers.SharedMariaDB
	given := shared.Get(t)
	t.Run("database", func(t *testing.T) {
		want(t, given.SQLAt(t, given.Database(t), "SELECT CURRENT_USER()"), "boss@%")
		want(t, given.DSN("d"), "boss:pass:word@"+at+"d?timeout=9s")
	})
	want(t, m.SQL(t, "SHOW DATABASES LIKE 'test%'"), "")
	if got := failure(t, func(t testing.TB) { given.Kill(t) }); !strings.Contains(got, "RETRYSAFE_TEST_MYSQL") {
		t.Errorf("Kill: the failure is %q", got)
	}
	want(t, m.SQL(t, "SELECT 1"), "1")
	for _, wrong := range []string{"secret", "root:secret@localhost/", "root:secret@tcp(localhost)/"} {
		t.Setenv("RETRYSAFE_TEST_MYSQL", wrong)
		var shared servers.SharedMariaDB
		got := failure(t, func(t testing.TB) { shared.Get(t) })
		if !strings.Contains(got, "RETRYSAFE_TEST_MYSQL must be like") || strings.Contains(got, "secret") {
			t.Errorf("with %q: the failure is %q", wrong, got)
		}
	}
}
