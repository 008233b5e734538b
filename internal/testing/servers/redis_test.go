package servers_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func TestRedisIsKilledPausedAndRestarted(t *testing.T) {
	t.Parallel()
	for _, valkey := range []bool{false, true} {
		testRedis(t, valkey)
	}
}

func testRedis(t *testing.T, valkey bool) {
	r := servers.StartRedis(t, servers.RedisOptions{
		Settings: map[string]string{"maxmemory-policy": "allkeys-lru"}, Valkey: valkey,
	})
	if strings.Contains(r.Command(t, "INFO", "server"), "valkey") != valkey {
		t.Error("the wrong server has started")
	}
	want(t, r.Command(t, "CONFIG", "GET", "maxmemory-policy"), "maxmemory-policy\nallkeys-lru")
	want(t, r.Command(t, "CONFIG", "GET", "appendfsync"), "appendfsync\nalways")
	want(t, r.Command(t, "SET", "k", "kept"), "OK")
	r.Kill(t)
	if _, err := greeting(t, r.URL(), "", brief); err == nil {
		t.Error("a killed server answers")
	}
	r.Start(t)
	want(t, r.Command(t, "GET", "k"), "kept")
	r.Pause(t)
	if text, err := greeting(t, r.URL(), "PING\r\n", brief); err == nil {
		t.Errorf("a paused server says %q", text)
	}
	r.Resume(t)
	r.Restart(t)
	want(t, r.Command(t, "GET", "k"), "kept")
	r.Flush(t)
	want(t, r.Command(t, "DBSIZE"), "0")
}

// Seen to fail with -e taken out of the arguments of redis-cli.
func TestErrorOfRedisFailsTheTest(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{})
	if failure(t, func(t testing.TB) { r.Command(t, "INCR", "k", "twice") }) == "" {
		t.Error("a wrong command does not fail the test")
	}
}

// Seen to fail with once taken out.
func TestSharedRedisIsOneServer(t *testing.T) {
	t.Parallel()
	var shared servers.SharedRedis
	first, second := shared.Get(t), shared.Get(t)
	if first != second || first.PID() == 0 {
		t.Errorf("the servers have the processes %d and %d: want one", first.PID(), second.PID())
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

func TestSharedRedisThatDoesNotStartFailsEveryTest(t *testing.T) {
	t.Parallel()
	shared := servers.SharedRedis{Options: servers.RedisOptions{Settings: map[string]string{"no-such-setting": "1"}}}
	for range 2 {
		if failure(t, func(t testing.TB) { shared.Get(t) }) == "" {
			t.Error("Get does not fail")
		}
	}
}
