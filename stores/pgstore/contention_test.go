package pgstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
)

// Large batches of the same keys, from two stores at once: all take the rows in one order.
// Seen to fail, with deadlocks, with ORDER BY "p.owner" in acquire.sql.
func TestBatchesOfTheSameKeys(t *testing.T) {
	t.Parallel()
	url := shared.Get(t).Database(t)
	stores := []*Store{openOneWorkerAt(t, url), openOneWorkerAt(t, url)}
	for round := range 5 {
		var outcomes []chan outcome
		var releases []func()
		for _, s := range stores {
			var calls []func() (retrysafe.Claim, error)
			for i := range 300 {
				calls = append(calls, claiming(s, params(fmt.Sprint(round, " ", i))))
			}
			o, release := behind(t, s, calls...)
			outcomes, releases = append(outcomes, o...), append(releases, release)
		}
		together(t, len(releases), func(i int) error { releases[i](); return nil })
		acquired := 0
		for _, o := range outcomes {
			switch got := <-o; {
			case got.err != nil:
				t.Fatal(got.err)
			case got.claim.Verdict == retrysafe.Acquired:
				acquired++
			}
		}
		if acquired != 300 {
			t.Errorf("%d of 300 keys acquired", acquired)
		}
	}
	if n := deadlocks(t, stores...); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// Seen to fail with both ways to try again taken out: runAlone, and deadlockDetected in remedy.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	ctx, url := context.Background(), shared.Get(t).Database(t)
	s := openOneWorkerAt(t, url+"&options=-c%20deadlock_timeout%3D1ms")
	waitLong(t, s)
	first, last, second := acquire(t, s, "first"), acquire(t, s, "last"), acquire(t, s, "second")
	if d, e := first.Key.Digest(), last.Key.Digest(); bytes.Compare(d[:], e[:]) > 0 {
		first, last = last, first
	}
	outcomes, release := behind(t, s, doing(func() error { return complete(s, first) }),
		doing(func() error { return complete(s, last) }), claiming(s, params("second")))
	patient := openPool(t, url+"&options=-c%20deadlock_timeout%3D600s") // so that the other one is given up
	err := pgx.BeginFunc(ctx, patient, func(tx pgx.Tx) error {
		lock := func(k retrysafe.Key) error {
			d := k.Digest()
			_, err := tx.Exec(ctx, fmt.Sprintf("UPDATE retrysafe.claims SET attempt = attempt WHERE k = '%x'", d[:]))
			return err
		}
		if err := lock(second.Key); err != nil {
			return err
		}
		// A deadlock is looked for once in each wait: the batch has to come last.
		unlock := lockRow(t, s, last.Key)
		release()
		eventually(t, "the batch has the first key, and waits for the last", func() bool { return lockWaits(t, s) == 1 })
		locked := make(chan error, 1)
		go func() { locked <- lock(first.Key) }()
		eventually(t, "the transaction waits for the batch", func() bool { return lockWaits(t, s) == 2 })
		unlock()
		return <-locked
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes[:2] {
		if got := <-o; got.err != nil {
			t.Errorf("a completion = %v", got.err)
		}
	}
	if got := <-outcomes[2]; got.err != nil || got.claim.Verdict != retrysafe.InFlight {
		t.Errorf("the claim = %v, %v", got.claim.Verdict, got.err)
	}
	patient.Close()
	if n := deadlocks(t, s); n != 1 {
		t.Errorf("%d deadlocks, want the one that was made", n)
	}
}

// A default that has become stricter since the Store was made is coped with, if not too many meet.
// Seen to fail with serializationFailure taken out of retry.
func TestDefaultThatBecameStrict(t *testing.T) {
	t.Parallel()
	s := openAt(t, shared.Get(t).Database(t)+strict, Options{})
	s.strict = false
	waitLong(t, s)
	unlock := lockRow(t, s, acquire(t, s, "k").Key)
	answer := make(chan outcome, 1)
	go func() {
		c, err := s.Claim(context.Background(), params("k"))
		answer <- outcome{c, err}
	}()
	eventually(t, "the row is waited for", func() bool { return lockWaits(t, s) == 1 })
	unlock()
	if got := <-answer; got.err != nil || got.claim.Verdict != retrysafe.InFlight {
		t.Errorf("the claim = %v, %v; want it in flight", got.claim.Verdict, got.err)
	}
}

func deadlocks(t *testing.T, stores ...*Store) int {
	t.Helper()
	settleCounts(t, stores...)
	return value[int](t, stores[0], "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}

// A row that an open transaction has locked fails the operations on that row, if the role has a limit, and no others.
// Seen to fail with runAlone left out of run.
func TestLimitsOfTheRole(t *testing.T) {
	t.Parallel()
	// A busy server takes long for the other statements too, and waits for no lock meanwhile.
	for limit, milliseconds := range map[string]string{"lock_timeout": "1000", "statement_timeout": "5000"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			url := shared.Get(t).Database(t)
			patient := openAt(t, url, Options{})
			s := openOn(t, openPool(t, url+"&"+limit+"="+milliseconds), Options{Connections: 1})
			locked, others := acquire(t, s, "locked"), make([]retrysafe.Lease, 5)
			calls := []func() (retrysafe.Claim, error){doing(func() error { return complete(s, locked) })}
			for i := range others {
				others[i] = acquire(t, s, fmt.Sprint("other ", i))
				calls = append(calls, doing(func() error { return complete(s, others[i]) }))
			}
			unlock := lockRow(t, patient, locked.Key)
			outcomes := make([]error, len(calls))
			together(t, len(calls), func(i int) error { _, outcomes[i] = calls[i](); return nil })
			unlock()
			if i := slices.IndexFunc(outcomes[1:], func(err error) bool { return err != nil }); i >= 0 {
				t.Errorf("completion of another key: %v", outcomes[i+1])
			}
			if err := outcomes[0]; err == nil || !strings.Contains(err.Error(), "timeout") {
				t.Errorf("completion of the locked key = %v, want what the server says", err)
			}
			if err := complete(s, locked); err != nil {
				t.Errorf("completion once the row is free: %v", err)
			}
		})
	}
}
