package pgstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// What a transaction has answered before its connection was lost was never so.
// Seen to fail with operations that are not added anew in anew: completions that were rolled back were acknowledged.
func TestAnswersOfALostTransactionAreForgotten(t *testing.T) {
	t.Parallel()
	s := openOneWorker(t)
	waitLong(t, s)
	taken, reconnect := make(chan struct{}), s.batcher.Reconnect
	s.batcher.Reconnect = func() int { <-taken; return reconnect() } // so that the others are first
	blocked := acquire(t, s, "blocked")
	var calls []func() (retrysafe.Claim, error)
	for i := range 400 { // so many that the server sends the first answers before the last are there
		lease := acquire(t, s, fmt.Sprint("id ", i))
		calls = append(calls, doing(func() error { return complete(s, lease) }))
	}
	calls = append(calls, claiming(s, params("blocked")))
	outcomes, release := behind(t, s, calls...)
	unlock := lockRow(t, s, blocked.Key)
	release()
	const inBatch = "query LIKE '%INSERT INTO%' AND wait_event_type = 'Lock' AND datname = current_database()"
	eventually(t, "the batch waits for the last key", func() bool {
		return value[int](t, s, "SELECT count(*) FROM pg_stat_activity WHERE "+inBatch) == 1
	})
	go func() {
		defer close(taken)
		execute(t, s, "UPDATE {{schema}}.claims SET fence = fence + 1 WHERE id LIKE 'id %'") // as others that take over do
	}()
	eventually(t, "others wait for the batch", func() bool { return lockWaits(t, s) == 2 })
	value[bool](t, s, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "+inBatch)
	<-taken
	unlock()
	for _, o := range outcomes[:400] {
		if got := <-o; !errors.Is(got.err, retrysafe.ErrLeaseLost) {
			t.Fatalf("a completion that was rolled back, under a lease that is lost now = %v, want ErrLeaseLost", got.err)
		}
	}
}
