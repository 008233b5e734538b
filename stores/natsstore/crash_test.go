package natsstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// The server is killed with SIGKILL while callers claim and complete. What it has acknowledged is still there when it
// has started again, with sync_interval: always and without, and calls that it took with it go on by themselves.
//
// Seen to fail with the bucket in memory, which was gone, and with temporary knowing nothing but conflicts.
func TestSoakKillKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]servers.NATSOptions{"sync_always": {SyncAlways: true}, "sync_2m": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := servers.StartNATS(t, o)
			js := connect(t, n.URL())
			s := open(t, js, Options{Bucket: newBucket(t, js, BucketOptions{}), Timeout: patience})
			c := startCallers(t, s)
			for range soak.Times(t, 2) {
				c.untilDone(100)
				n.Kill(t)
				n.Start(t)
			}
			c.untilDone(100)
			c.stop()
			lost := 0
			for id, l := range c.done {
				got, err := s.Claim(context.Background(), params(id))
				if err != nil || got.Verdict != retrysafe.Done || got.Record.Fence != l.Fence ||
					string(got.Record.Result.Body) != id {
					lost++
				}
			}
			t.Logf("%d acknowledged, %d lost, 0 calls failed", len(c.done), lost)
			if lost > 0 {
				t.Error("want none lost")
			}
		})
	}
}

// callers claim and complete keys of their own until they are stopped.
type callers struct {
	*testing.T
	store  *Store
	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu   sync.Mutex
	done map[string]retrysafe.Lease
}

func startCallers(t *testing.T, s *Store) *callers {
	c := &callers{T: t, store: s, done: map[string]retrysafe.Lease{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for i := range 8 {
		c.all.Go(func() {
			for n := 0; c.ctx.Err() == nil; n++ {
				if err := c.once(fmt.Sprint(i, " ", n)); err != nil && c.ctx.Err() == nil {
					t.Errorf("a call failed: %v", err)
				}
			}
		})
	}
	t.Cleanup(c.stop)
	return c
}

func (c *callers) once(id string) error {
	got, err := c.store.Claim(c.ctx, params(id))
	if err != nil {
		return err
	}
	if got.Verdict != retrysafe.Acquired {
		return fmt.Errorf("a new key is %s", got.Verdict)
	}
	if err := c.store.Complete(c.ctx, got.Lease, retrysafe.Result{Body: []byte(id)}, retrysafe.Retention{}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[id] = got.Lease
	return nil
}

func (c *callers) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.done)
}

func (c *callers) untilDone(more int) {
	c.Helper()
	before := c.count()
	until(c.T, fmt.Sprintf("%d more keys done", more), func() bool { return c.count() >= before+more })
}

func (c *callers) stop() {
	c.cancel()
	c.all.Wait()
}

// A waiter whose connection was lost is woken, since it may have missed the notice, and gets the next one again.
// Seen to fail with the status of the connection ignored.
func TestWatchWakesAfterTheConnectionWasLost(t *testing.T) {
	t.Parallel()
	n := servers.StartNATS(t, servers.NATSOptions{})
	s := open(t, connect(t, n.URL()), Options{Bucket: newBucket(t, connect(t, n.URL()), BucketOptions{})})
	c, err := s.Claim(t.Context(), params("k"))
	if err != nil {
		t.Fatal(err)
	}
	changed, stop, err := s.Watch(t.Context(), c.Lease.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	woken := func(why string) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(patience):
			t.Fatalf("not woken after %s", why)
		}
	}
	n.Kill(t)
	n.Start(t)
	woken("the connection was made anew")
	if err := s.Extend(t.Context(), c.Lease, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(t.Context(), c.Lease, retrysafe.Result{}, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	woken("the completion")
}

// A watch that was stopped leaves nothing behind. Seen to fail with Unsubscribe taken out.
func TestStopFreesTheSubscription(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	before := s.conn.NumSubscriptions()
	_, stop, err := s.Watch(t.Context(), retrysafe.Key{ID: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.conn.NumSubscriptions(); got != before+1 {
		t.Errorf("%d subscriptions, want %d", got, before+1)
	}
	stop()
	if got := s.conn.NumSubscriptions(); got != before {
		t.Errorf("%d subscriptions after stop, want %d", got, before)
	}
}
