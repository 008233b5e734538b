package mysqlstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// An attempt that ends wakes also if another one has the key by the time of the next look. Seen to fail with the same
// fence for every row.
func TestAttemptThatIsFollowedBetweenTwoLooksWakes(t *testing.T) {
	t.Parallel()
	dsn := shared.Get(t).Database(t)
	here, there := openAt(t, dsn, Options{}), openAt(t, dsn, Options{})
	l := acquire(t, there, "k")
	changed, stop, err := here.Watch(t.Context(), l.Key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if err := there.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	acquire(t, there, "k")
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Error("no value came")
	}
}

// However many keys are watched, the server is asked twice a second, and not at all when there are no watches. Seen to
// fail with pollEvery of 100 ms, with pollKeys = 10, and with keys not ending the goroutine.
func TestPollerAsksTwiceASecond(t *testing.T) {
	t.Parallel()
	server := servers.StartMariaDB(t, servers.MariaDBOptions{})
	s := openAt(t, server.Database(t), Options{})
	var stops []func()
	for i := range 50 {
		_, stop, err := s.Watch(t.Context(), params(fmt.Sprint("k", i)).Key)
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
	}
	asked := func() int64 { return status(t, s.db, "Com_select") }
	began, before := time.Now(), asked()
	eventually(t, "five looks", func() bool { return asked() >= before+5 })
	// After a look that comes late the next one comes sooner: five are not always four times pollEvery apart.
	if took := time.Since(began); took < 3*pollEvery {
		t.Errorf("five looks in %v, want one each %v", took, pollEvery)
	}
	for _, stop := range stops {
		stop()
	}
	eventually(t, "the poller ends", func() bool { s.poller.mu.Lock(); defer s.poller.mu.Unlock(); return !s.poller.running })
	if n := len(s.poller.watched); n != 0 {
		t.Errorf("%d keys are still watched", n)
	}
}
