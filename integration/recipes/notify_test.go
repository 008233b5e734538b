package recipes

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// commitQueue counts the transactions that wait for the lock which a transaction with a notification holds during its
// commit.
const commitQueue = `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'object'
	AND classid = 'pg_database'::regclass AND objid = 0`

// pace is the result of clients that complete in turn, as fast as possible.
type pace struct {
	rate  float64 // completions per second
	queue int64   // maximum number of waiting commits
}

// The rates depend on the disk and on the machine's load, so they are only printed. The queue is checked. Seen to
// fail with NOTIFY in both, and in neither.
func TestNotifyingEveryCompletionQueuesCommits(t *testing.T) {
	conns := clients(t, 33, "CREATE TABLE keys (key text PRIMARY KEY, n bigint NOT NULL DEFAULT 0)")
	change(t, conns[0], "INSERT INTO keys SELECT generate_series(1, $1::int)", len(conns))
	silent := completeFor(t, conns, "SELECT $1::text")
	telling := completeFor(t, conns, "SELECT pg_notify('keys', $1)")
	t.Logf("completions a second of %d clients: %.0f without NOTIFY, %.0f with it: 1/%.1f; up to %d waited to commit",
		len(conns)-1, silent.rate, telling.rate, silent.rate/telling.rate, telling.queue)
	if silent.queue != 0 || telling.queue == 0 {
		t.Errorf("%d waited to commit without NOTIFY, %d with it; want none, and some", silent.queue, telling.queue)
	}
}

// completeFor lets all clients but the first complete and run tell in one transaction; the first one observes.
func completeFor(t *testing.T, conns []*pgx.Conn, tell string) (p pace) {
	t.Helper()
	const long = time.Second
	var completions, number atomic.Int64
	from := time.Now()
	together(conns, func(c *pgx.Conn) {
		if c == conns[0] {
			p.queue = longestQueue(t, c, from.Add(long))
			return
		}
		for key := fmt.Sprint(number.Add(1)); time.Since(from) < long; completions.Add(1) {
			var b pgx.Batch
			b.Queue("UPDATE keys SET n = n + 1 WHERE key = $1", key)
			b.Queue(tell, key)
			if err := c.SendBatch(context.Background(), &b).Close(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	p.rate = float64(completions.Load()) / time.Since(from).Seconds()
	return p
}

func longestQueue(t *testing.T, c *pgx.Conn, until time.Time) (longest int64) {
	t.Helper()
	for range time.Tick(10 * time.Millisecond) {
		if time.Now().After(until) {
			break
		}
		var n int64
		if err := c.QueryRow(context.Background(), commitQueue).Scan(&n); err != nil {
			t.Error(err)
			break
		}
		longest = max(longest, n)
	}
	return longest
}
