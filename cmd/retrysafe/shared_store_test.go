//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// twoProxies are two processes in front of one API, with one database.
func twoProxies(t *testing.T, up *api, url, rules string) (a, b *running) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "proxy.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--upstream=" + up.URL, "--store=" + url, "--config=" + file}
	return startProxy(t, args...), startProxy(t, args...)
}

// waitAcross lets b wait for what runs at a, until the database knows of one who is to be told: both get the answer.
func waitAcross(t *testing.T, up *api, a, b *running, waiting func() string) {
	t.Helper()
	release := sync.OnceFunc(func() { close(up.goOn) })
	t.Cleanup(release) // however the test ends
	answered := make(chan reply, 2)
	go a.hold(answered)
	waitFor(t, up.began, "the operation to run")
	go b.hold(answered)
	for late := time.Now().Add(time.Minute); waiting() != "1"; {
		if time.Now().After(late) {
			t.Fatal("nobody asks to be told")
		}
	}
	release()
	for range 2 {
		want(t, "body", waitFor(t, answered, "the answers").body, "charge 1")
	}
	want(t, "asked", up.asked.Load(), 1)
}

// Seen to fail with a schema of its own for the second proxy.
func TestProxiesShareADatabase(t *testing.T) {
	t.Parallel()
	up := newAPI(t)
	a, b := twoProxies(t, up, migrated(t), "defaults: {in_flight: wait:15s}")
	replies := make([]reply, 20)
	var all sync.WaitGroup
	for i := range replies {
		all.Go(func() {
			var err error
			if replies[i], err = []*running{a, b}[i%2].post("k", "amount=1"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	replayed := 0
	for _, r := range replies {
		want(t, "body", r.body, "charge 1")
		if r.Header.Get("Idempotent-Replayed") == "true" {
			replayed++
		}
	}
	want(t, "replayed", replayed, 19)
	want(t, "asked", up.asked.Load(), 1)
	want(t, "another body at the other proxy", b.mustPost("k", "amount=2").StatusCode, 422)
}

// Whoever waits at the other proxy is woken by the database: it has asked to be told, and is told.
//
// Seen to fail with pg_notify taken out of complete.sql.
func TestWaitingAtAnotherProxy(t *testing.T) {
	t.Parallel()
	up, pg, url := newAPI(t), shared.Get(t), migrated(t)
	a, b := twoProxies(t, up, url, "defaults: {in_flight: wait:15s}")
	heard := listen(t, url, "retrysafe_retrysafe")
	waitAcross(t, up, a, b, func() string { return pg.PsqlAt(t, url, "SELECT count(*) FROM retrysafe.claims WHERE waiters") })
	key := pg.PsqlAt(t, url, "SELECT k FROM retrysafe.claims")
	for said := ""; said != key; {
		said = waitFor(t, heard, "the notification")
	}
}

// Seen to fail with abandoned: rerun and refuse exchanged.
func TestAProxyDiesAndTheOtherGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy, body string
		status       int
		asked        int64
	}{
		{"refuse", "outcome-unknown", 500, 1},
		{"rerun", "charge 2", 201, 2},
	} {
		t.Run(c.policy, func(t *testing.T) {
			t.Parallel()
			up := newAPI(t)
			a, b := twoProxies(t, up, migrated(t), "defaults: {lease: 1s, in_flight: wait:15s, abandoned: "+c.policy+", upstream_key: none}")
			go a.post("k", "amount=1", "X-Hold", "1") // dies with the proxy
			waitFor(t, up.began, "the operation to run")
			a.signal(syscall.SIGKILL)
			a.exit()
			close(up.goOn)
			for range 2 {
				got := b.mustPost("k", "amount=1")
				want(t, "status", got.StatusCode, c.status)
				if !strings.Contains(got.body, c.body) {
					t.Errorf("body %q lacks %q", got.body, c.body)
				}
			}
			want(t, "asked", up.asked.Load(), c.asked)
		})
	}
}

// Behind PgBouncer nobody can listen; with a direct connection for that all is as without it.
//
// Seen to fail without notify: no connection listens, so nobody asks to be told.
func TestProxyBehindPgBouncer(t *testing.T) {
	t.Parallel()
	up, pg, url := newAPI(t), shared.Get(t), migrated(t)
	bouncer := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolMode: "transaction"})
	through := withParam(bouncer.Through(t, url), "default_query_exec_mode=cache_describe")
	want(t, "exit code", runBinary(t, "migrate", "status", "--store="+through).code, exitOK)
	direct := strings.ReplaceAll(withParam(url, "application_name=direct"), "&", "%26")
	a, b := twoProxies(t, up, withParam(through, "notify="+direct), "defaults: {in_flight: wait:15s}")
	waitAcross(t, up, a, b, func() string {
		return pg.PsqlAt(t, url, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'direct' AND query LIKE 'LISTEN%'`)
	})
	want(t, "sweep", runBinary(t, "sweep", "--store="+through).code, exitOK)
}
