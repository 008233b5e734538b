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
	silent := complete(t, conns, "SELECT $1::text", 0)
	telling := complete(t, conns, "SELECT pg_notify('keys', $1)", 1)
	t.Logf("completions a second of %d clients: %.0f without NOTIFY, %.0f with it: 1/%.1f; up to %d waited to commit",
		len(conns)-1, silent.rate, telling.rate, silent.rate/telling.rate, telling.queue)
	if silent.queue != 0 || telling.queue == 0 {
		t.Errorf("%d waited to commit without NOTIFY, %d with it; want none, and some", silent.queue, telling.queue)
	}
}

// complete lets all clients but the first complete and run tell in one transaction; the first one observes until it has
// seen a queue that long.
func complete(t *testing.T, conns []*pgx.Conn, tell string, queue int64) (p pace) {
	t.Helper()
	var completions, number atomic.Int64
	var over atomic.Bool
	from := time.Now()
	together(conns, func(c *pgx.Conn) {
		if c == conns[0] {
			defer over.Store(true)
			p.queue = longestQueue(t, c, queue)
			return
		}
		for key := fmt.Sprint(number.Add(1)); !over.Load(); completions.Add(1) {
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

// longestQueue looks a hundred times, and on until the queue was that long, or a minute is over.
func longestQueue(t *testing.T, c *pgx.Conn, least int64) (longest int64) {
	t.Helper()
	for i, late := 0, time.Now().Add(time.Minute); i < 100 || longest < least && time.Now().Before(late); i++ {
		time.Sleep(10 * time.Millisecond)
		var n int64
		if err := c.QueryRow(context.Background(), commitQueue).Scan(&n); err != nil {
			t.Error(err)
			break
		}
		longest = max(longest, n)
	}
	return longest
}
