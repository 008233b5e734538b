package natsstore

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
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
			c := testkit.StartCallers(t, s, 8)
			for range soak.Times(t, 2) {
				c.UntilDone(100)
				n.Kill(t)
				n.Start(t)
			}
			c.UntilDone(100)
			c.Stop()
			claims, results := c.Lost()
			t.Logf("%d acknowledged, %d lost, 0 calls failed", len(c.Completed), results)
			if claims+results > 0 {
				t.Errorf("%d claims and %d completions are lost, want none", claims, results)
			}
		})
	}
}

// A waiter whose connection was lost is woken, since it may have missed the notice, and gets the next one again. So is
// one that begins to wait meanwhile.
//
// Seen to fail with the status of the connection ignored, and with StatusChanged after FlushWithContext.
func TestWatchWakesAfterTheConnectionWasLost(t *testing.T) {
	t.Parallel()
	n := servers.StartNATS(t, servers.NATSOptions{})
	bucket := newBucket(t, connect(t, n.URL()), BucketOptions{})
	s := open(t, connect(t, n.URL()), Options{Bucket: bucket, Timeout: patience})
	l := acquire(t, s, "k")
	var before, meanwhile <-chan struct{}
	watch := func(changed *<-chan struct{}) (err error) {
		var stop func()
		if *changed, stop, err = s.Watch(t.Context(), l.Key); err == nil {
			t.Cleanup(stop)
		}
		return err
	}
	if err := watch(&before); err != nil {
		t.Fatal(err)
	}
	woken := func(why string) {
		t.Helper()
		for which, changed := range map[string]<-chan struct{}{"before": before, "meanwhile": meanwhile} {
			select {
			case <-changed:
			case <-time.After(patience):
				t.Fatalf("the watch that began %s is not woken after %s", which, why)
			}
		}
	}
	n.Kill(t)
	until(t, "the connection is lost", s.conn.IsReconnecting)
	began := make(chan error, 1)
	go func() { began <- watch(&meanwhile) }()
	until(t, "Watch waits for the server", func() bool {
		bytes, err := s.conn.Buffered()
		return err == nil && bytes > 0
	})
	n.Start(t)
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	woken("the connection was made anew")
	if err := s.Extend(t.Context(), l, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(t.Context(), l, retrysafe.Result{}, retrysafe.Retention{}); err != nil {
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
