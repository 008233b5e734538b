package servers_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Seen to fail with synchronous left unread: the commit did not wait for the paused standby.
func TestCommitsWaitForASynchronousStandby(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	db := pg.Database(t)
	standby := pg.StartStandby(t, true)
	s := openSession(t, db)
	s.ask("CREATE TABLE t (n int); SELECT 'created'")
	want(t, <-s.answers, "created")

	standby.Pause(t)
	s.ask("INSERT INTO t VALUES (42) RETURNING 'inserted'")
	select {
	case got := <-s.answers:
		t.Fatalf("%s, though the standby is paused", got)
	case <-time.After(200 * time.Millisecond):
	}
	standby.Resume(t)
	want(t, <-s.answers, "inserted")
}

// Seen to fail with waitFor taken out of Promote: the insert waited for the first standby.
func TestPromotedStandbyHasWhatWasCommitted(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	pg.StartStandby(t, true)
	standby := pg.StartStandby(t, true)
	want(t, standby.Psql(t, "SELECT pg_is_in_recovery()"), "t")
	pg.Psql(t, "CREATE TABLE t (n int); INSERT INTO t VALUES (42)")
	pg.Kill(t)
	standby.Promote(t)
	want(t, standby.Psql(t, "INSERT INTO t VALUES (43); TABLE t"), "42\n43")
	standby.Database(t)
}

func TestStandbyCatchesUpAfterAKill(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	standby := pg.StartStandby(t, false)
	standby.Kill(t)
	pg.Psql(t, "CREATE TABLE t AS SELECT 42 AS n") // a primary without standbys; the table comes with its row
	pg.Restart(t)
	standby.Start(t)
	for deadline := time.Now().Add(long); standby.Psql(t, "SELECT to_regclass('t') IS NULL") == "t"; {
		if time.Now().After(deadline) {
			t.Fatal("the row does not come\n" + standby.Log())
		}
	}
	want(t, standby.Psql(t, "TABLE t"), "42")
}

// Seen to fail, by hanging, with waitNoMoreFor taken out of StartStandby.
func TestPrimaryWaitsNoMoreForAClosedStandby(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	t.Run("two of them", func(t *testing.T) {
		pg.StartStandby(t, true)
		pg.StartStandby(t, true)
		want(t, pg.Psql(t, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"), "2")
	})
	pg.Psql(t, "CREATE TABLE t ()")
}

// Seen to fail, by hanging, with a synchronous DROP DATABASE.
func TestDatabaseIsDroppedWhileTheStandbyIsDown(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	standby := pg.StartStandby(t, true)
	pg.Database(t)
	standby.Kill(t)
}

func TestOnlyAStandbyIsPromoted(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	want(t, failure(t, func(t testing.TB) { pg.Promote(t) }), "servers: this server is not a standby")
}
