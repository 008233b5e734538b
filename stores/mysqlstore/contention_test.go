package mysqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Hundreds of writers of new keys, in three stores, meet no deadlock at all: READ COMMITTED locks no gaps.
func TestNewKeysCauseNoDeadlocks(t *testing.T) {
	t.Parallel()
	server := servers.StartMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{
		"innodb-flush-log-at-trx-commit": "0",
	}})
	dsn := server.Database(t)
	stores := []*Store{openAt(t, dsn, Options{}), openAt(t, dsn, Options{}), openAt(t, dsn, Options{Connections: 4})}
	together(t, 300, func(i int) error {
		s := stores[i%len(stores)]
		for n := range 10 {
			c, err := s.Claim(context.Background(), params(fmt.Sprint(i, " ", n)))
			if err == nil && c.Verdict != retrysafe.Acquired {
				err = fmt.Errorf("claim of a new key: %v", c.Verdict)
			}
			if err == nil {
				err = complete(s, c.Lease)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if n := status(t, stores[0].db, "Innodb_deadlocks"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// Claims, completions, releases and sweeps of few keys from several stores: a batch may want rows of another one, and
// whatever comes of that, no caller sees it.
func TestStormOfEverything(t *testing.T) {
	t.Parallel()
	dsn := shared.Get(t).Database(t)
	stores := []*Store{openAt(t, dsn, Options{}), openAt(t, dsn, Options{}), openAt(t, dsn, Options{Connections: 3})}
	var acquired atomic.Int64
	together(t, 64, func(i int) error {
		if s := stores[i%len(stores)]; i < 60 {
			return stormOn(s, i, &acquired)
		} else {
			return sweepOften(s)
		}
	})
	if acquired.Load() < 60 {
		t.Errorf("%d keys acquired: that is no storm", acquired.Load())
	}
}

func stormOn(s *Store, i int, acquired *atomic.Int64) error {
	ctx := context.Background()
	for n := range 20 {
		p := params(fmt.Sprint("key ", (n*7+i*3)%9))
		p.TakeOver = true
		c, err := s.Claim(ctx, p)
		if err != nil {
			return err
		}
		if c.Verdict != retrysafe.Acquired {
			continue
		}
		acquired.Add(1)
		end := s.Release
		if n%5 == 0 {
			end = func(ctx context.Context, l retrysafe.Lease) error {
				return s.Complete(ctx, l, retrysafe.Result{}, retrysafe.Retention{Replay: 1, Key: 1, Audit: 1})
			}
		}
		if err := errors.Join(s.Extend(ctx, c.Lease, time.Minute), end(ctx, c.Lease)); err != nil {
			return err
		}
	}
	return nil
}

func sweepOften(s *Store) error {
	for range 20 {
		if _, err := s.Sweep(context.Background(), 10); err != nil {
			return err
		}
	}
	return nil
}

// A row that is locked for longer than a batch waits holds up its own operation and no other, and that one goes on
// when the row is free. Seen to fail with lockWaitTimeout taken out of remedy, and without one worker more while one is
// held up: then the others waited until the operation had failed.
func TestLockedRowHoldsUpItsOwnOperation(t *testing.T) {
	t.Parallel()
	s := openAt(t, shared.Get(t).Database(t), Options{Connections: 1})
	locked := acquire(t, s, "locked")
	unlock := lockRow(t, s, locked.Key)
	extended := make(chan error, 1)
	go func() { extended <- s.Extend(context.Background(), locked, time.Minute) }()
	eventually(t, "the operation waits for the row", func() bool { return lockWaits(t, s) == 1 })
	together(t, 20, func(i int) error { return complete(s, acquire(t, s, fmt.Sprint("other ", i))) })
	first := waiting(t, s)
	eventually(t, "another transaction waits", func() bool {
		if len(extended) > 0 {
			t.Fatalf("the operation did not wait: %v", <-extended)
		}
		now := waiting(t, s)
		return now != 0 && now != first
	})
	unlock()
	if err := <-extended; err != nil {
		t.Errorf("the operation, after the row was free: %v", err)
	}
}

// A deadlock with a transaction of another program is tried again. Seen to fail with deadlock taken out of remedy.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	first, second := acquire(t, s, "first"), acquire(t, s, "second")
	op := newExtension(first, time.Minute)
	if again := s.runAlone(op, &mysql.MySQLError{Number: deadlock}); len(again) > 0 || op.err != nil {
		t.Errorf("after a deadlock: %d left, %v", len(again), op.err)
	}
	if err := complete(s, second); err != nil {
		t.Error(err)
	}
}

// A service that stands still between the completion of its key and COMMIT holds the record. Claims say that the key is
// in flight, and do not wait for it: one that expects a new key, one that knows the record, and a take-over.
// Seen to fail, by the deadline, with leaveHeld not called.
func TestClaimsOfAHeldRecordAreInFlight(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	held := acquire(t, s, "held")
	p := params("held")
	p.TakeOver = true
	claim := func(lease string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		c, err := s.Claim(ctx, p)
		if err != nil || c.Verdict != retrysafe.InFlight || c.Record.LeaseLeft <= 0 {
			t.Errorf("claim while the lease %s = %v with %v left, %v; want it in flight", lease, c.Verdict, c.Record.LeaseLeft, err)
		}
	}
	unlock := lockRow(t, s, held.Key)
	claim("runs")
	unlock()
	if err := s.Extend(t.Context(), held, 0); err != nil {
		t.Fatal(err)
	}
	unlock = lockRow(t, s, held.Key)
	claim("has run out")
	unlock()
	if c, err := s.Claim(t.Context(), p); err != nil || c.Verdict != retrysafe.Acquired {
		t.Errorf("claim after that = %v, %v; want it taken over", c.Verdict, err)
	}
}
