package redisstore

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// Nothing that was acknowledged is lost when the server is killed with SIGKILL while 16 callers write, with appendonly
// yes and appendfsync always.
//
// What the test shows is that the server writes to its file before it answers. SIGKILL leaves the file system's cache
// alone, so that the test cannot show that the file has been synced to the disk as well: that is what appendfsync is
// about, and is documented by the makers of Redis. TestKillWithoutFileLosesAll shows that a loss would be seen.
func TestSoakKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	w := writeUnderKills(t, servers.StartRedis(t, servers.RedisOptions{}), soak.Times(t, 3))
	claims, results := w.Lost()
	if claims+results > 0 {
		t.Errorf("lost %d of %d claims and %d of %d completions", claims, len(w.Claimed), results, len(w.Completed))
		return
	}
	t.Logf("0 of %d claims and %d completions lost", len(w.Claimed), len(w.Completed))
}

// A server without an append-only file loses everything when it is killed.
func TestKillWithoutFileLosesAll(t *testing.T) {
	t.Parallel()
	w := writeUnderKills(t, startSet(t, map[string]string{"appendonly": "no"}), 1)
	if claims, results := w.Lost(); claims < killedAfter || results < killedAfter {
		t.Errorf("lost %d of %d claims and %d of %d completions, want all that came before the kill", claims, len(w.Claimed),
			results, len(w.Completed))
	}
}

// killedAfter is how many keys are done before each kill.
const killedAfter = 300

// writeUnderKills kills the server so often while 16 callers claim and complete keys, and starts it again.
func writeUnderKills(t *testing.T, r *servers.Redis, kills int) *testkit.Callers {
	t.Helper()
	w := testkit.StartCallers(t, openOn(t, connect(t, r.Address()), Options{Timeout: 2 * time.Minute}), 16)
	for range kills {
		w.UntilDone(killedAfter)
		r.Kill(t)
		r.Start(t)
	}
	w.UntilDone(16)
	w.Stop()
	return w
}
