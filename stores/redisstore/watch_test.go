package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// wakes expects a value.
func wakes(t testing.TB, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(testkit.Patience):
		t.Fatal("no value came")
	}
}

func watch(t testing.TB, s *Store, id string) (changed <-chan struct{}, stop func()) {
	t.Helper()
	changed, stop, err := s.Watch(context.Background(), params(id).Key)
	if err != nil {
		t.Fatal(err)
	}
	return changed, stop
}

// A watch that lost its connection is subscribed again, and woken because it may have missed something. Seen to fail
// with the wake taken out of the hook.
func TestWatchOutlivesARestart(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{})
	s := openOn(t, connect(t, r.Address()), Options{})
	changed, stop := watch(t, s, "k")
	defer stop()
	<-changed
	r.Restart(t)
	wakes(t, changed)
	lease := claimAndComplete(t, s, "k")
	wakes(t, changed)
	if lease.Fence == 0 {
		t.Error("nothing was claimed")
	}
}

// The last stop of a key ends its subscription on the server. Seen to fail with Sunsubscribe taken out of unsubscribe.
func TestStopEndsTheSubscription(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	s := openOn(t, connect(t, r.Address()), Options{})
	_, first := watch(t, s, "k")
	_, second := watch(t, s, "k")
	_, other := watch(t, s, "other")
	channels := func() string { return r.Command(t, "PUBSUB", "SHARDCHANNELS") }
	first()
	other()
	eventually(t, "one channel is left", func() bool { return channels() == s.key(params("k").Key.Digest()) })
	second()
	eventually(t, "no channel is left", func() bool { return channels() == "" })
	if n := len(s.topics.byKey); n != 0 {
		t.Errorf("%d subscriptions are kept", n)
	}
}

// Watches that come and go beside each other end up with a subscription that works.
func TestWatchesComeAndGo(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	together(t, 8, func(int) error {
		for range 10 {
			_, stop, err := s.Watch(context.Background(), params("k").Key)
			if err != nil {
				return err
			}
			stop()
		}
		return nil
	})
	changed, stop := watch(t, s, "k")
	defer stop()
	for range 5 {
		l := acquire(t, s, "k")
		drain(changed)
		if err := s.Release(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		wakes(t, changed)
	}
}

// drain takes the value that waits, if there is one.
func drain(changed <-chan struct{}) {
	select {
	case <-changed:
	default:
	}
}
