package mysqlstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The waiters of a Store are woken by attempts that end in another one. Seen to fail with look.sql selecting FALSE for
// abandoned, and with the same state for every row.
func TestOtherStoresWake(t *testing.T) {
	t.Parallel()
	dsn := shared.Get(t).Database(t)
	here, there := openAt(t, dsn, Options{}), openAt(t, dsn, Options{})
	ends := map[string]func(l retrysafe.Lease) error{
		"complete": func(l retrysafe.Lease) error { return complete(there, l) },
		"release":  func(l retrysafe.Lease) error { return there.Release(t.Context(), l) },
		"give up":  func(l retrysafe.Lease) error { return there.Extend(t.Context(), l, 0) },
	}
	woken := map[string]<-chan struct{}{}
	for id, end := range ends {
		l := acquire(t, there, id)
		changed, stop, err := here.Watch(t.Context(), l.Key)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		woken[id] = changed
		if err := end(l); err != nil { // at once: the poller has not looked yet
			t.Fatal(err)
		}
	}
	later, stop, err := here.Watch(t.Context(), params("later").Key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	woken["later"] = later
	if err := there.Release(t.Context(), acquire(t, there, "later")); err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for id, changed := range woken {
		select {
		case <-changed:
		case <-late.Done():
			t.Errorf("%s has woken no waiter", id)
		}
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
	before, began := asked(), time.Now()
	eventually(t, "five looks", func() bool { return asked() >= before+5 })
	if took := time.Since(began); took < 4*pollEvery {
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
