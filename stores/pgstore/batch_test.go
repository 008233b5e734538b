package pgstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
)

// openOneLane returns a store that makes one batch at a time, however long that takes.
func openOneLane(t testing.TB) *Store {
	t.Helper()
	s := openAt(t, shared.Get(t).Database(t), Options{Lanes: 1})
	s.lanes.limit = 1
	return s
}

// outcome is what became of an operation.
type outcome struct {
	claim retrysafe.Claim
	err   error
}

// oneBatch has calls made by one batch, and returns what became of each.
func oneBatch(t *testing.T, s *Store, calls ...func() (retrysafe.Claim, error)) []outcome {
	t.Helper()
	outcomes, release := behind(t, s, calls...)
	release()
	all := make([]outcome, len(calls))
	for i, o := range outcomes {
		all[i] = <-o
	}
	return all
}

// behind makes calls that wait for the store's lane until release.
func behind(t *testing.T, s *Store, calls ...func() (retrysafe.Claim, error)) (outcomes []chan outcome, release func()) {
	t.Helper()
	release = holdUp(t, s)
	for _, call := range calls {
		o := make(chan outcome, 1)
		outcomes = append(outcomes, o)
		go func() {
			c, err := call()
			o <- outcome{c, err}
		}()
	}
	eventually(t, "all calls wait for the lane", func() bool { return s.lanes.queued() == len(calls) })
	return outcomes, release
}

func claiming(s *Store, p retrysafe.ClaimParams) func() (retrysafe.Claim, error) {
	return func() (retrysafe.Claim, error) { return s.Claim(context.Background(), p) }
}

func doing(f func() error) func() (retrysafe.Claim, error) {
	return func() (retrysafe.Claim, error) { return retrysafe.Claim{}, f() }
}

// failures is how many transactions of the store's database have failed.
func failures(t *testing.T, s *Store) int {
	t.Helper()
	return value[int](t, s, "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()")
}

// However many want one key, a few batches answer them all: one look is good for everybody, and nobody gets another's bytes.
// Seen to fail with each looker of a key in a batch of its own, and with one record handed to all of them.
func TestBurstOnOneKey(t *testing.T) {
	t.Parallel()
	s := openOneLane(t)
	var batches atomic.Int64
	run := s.lanes.run
	s.lanes.run = func(ops []operation) []operation {
		batches.Add(1)
		return run(ops)
	}
	calls := make([]func() (retrysafe.Claim, error), 300)
	for i := range calls {
		calls[i] = claiming(s, params("hot"))
	}
	got := oneBatch(t, s, calls...)
	for _, o := range got {
		if o.err != nil {
			t.Fatal(o.err)
		}
		if o.claim.Verdict == retrysafe.Acquired {
			if err := s.Complete(t.Context(), o.claim.Lease, retrysafe.Result{Body: []byte("answer")}, retrysafe.Retention{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, o := range oneBatch(t, s, calls...) {
		body := o.claim.Record.Result.Body
		if o.err != nil || string(body) != "answer" {
			t.Fatalf("got %v with %q, %v", o.claim.Verdict, body, o.err)
		}
		body[0] = 'X'
	}
	if n := batches.Load(); n > 12 {
		t.Errorf("600 claims of one key took %d batches", n)
	}
}

// Each caller of one key gets its own answer, without a batch that fails on the way.
// Seen to fail with the look for the key taken out of group.add: a statement met a row twice (21000).
func TestSameKeyInOneBatch(t *testing.T) {
	t.Parallel()
	s := openOneLane(t)
	settleCounts(t, s)
	before := failures(t, s)
	var calls []func() (retrysafe.Claim, error)
	for range 30 {
		calls = append(calls, claiming(s, params("same")))
	}
	twice := params("twice")
	calls = append(calls, claiming(s, twice), claiming(s, twice))
	got := oneBatch(t, s, calls...)
	verdicts := map[retrysafe.Verdict]int{}
	for _, o := range got[:30] {
		if o.err != nil {
			t.Fatal(o.err)
		}
		verdicts[o.claim.Verdict]++
	}
	if verdicts[retrysafe.Acquired] != 1 || verdicts[retrysafe.InFlight] != 29 {
		t.Errorf("30 claims of one key got %v: want one acquired, 29 in flight", verdicts)
	}
	if a, b := got[30].claim, got[31].claim; a.Verdict != retrysafe.Acquired || a.Lease != b.Lease {
		t.Errorf("claims of one owner got %v and %v: want the same lease", a, b)
	}
	settleCounts(t, s)
	if n := failures(t, s) - before; n != 0 {
		t.Errorf("%d transactions failed", n)
	}
}

func TestSameKeyEndsTwiceInOneBatch(t *testing.T) {
	t.Parallel()
	s := openOneLane(t)
	lease, free, lost := acquire(t, s, "ends"), acquire(t, s, "released"), acquire(t, s, "lost")
	stranger := lost
	stranger.Owner = retrysafe.NewOwner()
	got := oneBatch(
		t, s,
		doing(func() error { return complete(s, lease) }),
		doing(func() error { return complete(s, lease) }),
		doing(func() error { return s.Release(context.Background(), free) }),
		doing(func() error { return s.Release(context.Background(), free) }),
		doing(func() error { return s.Extend(context.Background(), lost, time.Minute) }),
		doing(func() error { return complete(s, stranger) }),
	)
	for i, o := range got[:5] {
		if o.err != nil {
			t.Errorf("call %d: %v", i, o.err)
		}
	}
	if err := got[5].err; !errors.Is(err, retrysafe.ErrLeaseLost) {
		t.Errorf("completion under another's lease = %v, want ErrLeaseLost", err)
	}
}

// Seen to fail with carryAlone left out of carry: all fifty failed.
func TestPoisonHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	s := openOneLane(t)
	execute(t, s, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'poison'; END $$`)
	execute(t, s, `CREATE TRIGGER poison BEFORE INSERT ON {{schema}}.claims FOR EACH ROW WHEN (NEW.id = 'id 20') EXECUTE FUNCTION refuse()`)
	var calls []func() (retrysafe.Claim, error)
	for i := range 50 {
		calls = append(calls, claiming(s, params(fmt.Sprint("id ", i))))
	}
	for i, o := range oneBatch(t, s, calls...) {
		switch {
		case i == 20 && (o.err == nil || !strings.Contains(o.err.Error(), "poison")):
			t.Errorf("the poisonous claim = %v, want what the database says", o.err)
		case i != 20 && (o.err != nil || o.claim.Verdict != retrysafe.Acquired):
			t.Errorf("claim %d = %v, %v", i, o.claim.Verdict, o.err)
		}
	}
}

// Large batches of the same keys, from two stores at once: all take the rows in one order.
// Seen to fail, with deadlocks, with ORDER BY p.owner in claim.sql.
func TestBatchesOfTheSameKeys(t *testing.T) {
	t.Parallel()
	url := shared.Get(t).Database(t)
	stores := []*Store{openAt(t, url, Options{Lanes: 1}), openAt(t, url, Options{Lanes: 1})}
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

// Statements of one batch follow each other, so that two batches may want each other's rows: see TestDeadlockIsTriedAgain.
func TestStormOfEverything(t *testing.T) {
	t.Parallel()
	stores := openSeveral(t)
	var acquired atomic.Int64
	together(t, 60, func(i int) error {
		ctx, s := context.Background(), stores[i%len(stores)]
		for n := range 40 {
			p := params(fmt.Sprint("key ", (n*7+i*3)%9))
			p.Lease, p.TakeOver = time.Minute, true
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
					return s.Complete(ctx, l, retrysafe.Result{}, retrysafe.Retention{Replay: 1, Key: 1, Audit: time.Hour})
				}
			}
			if err := errors.Join(s.Extend(ctx, c.Lease, time.Minute), end(ctx, c.Lease)); err != nil {
				return err
			}
		}
		return nil
	})
	if acquired.Load() < 60 {
		t.Errorf("%d keys acquired: that is no storm", acquired.Load())
	}
	t.Logf("%d deadlocks", deadlocks(t, stores...))
}

// Seen to fail with both ways to try again taken out: carryAlone, and deadlockDetected in retry.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	ctx, url := context.Background(), shared.Get(t).Database(t)
	s := openAt(t, url+"&options=-c%20deadlock_timeout%3D500ms", Options{Lanes: 1})
	first, second := acquire(t, s, "first"), acquire(t, s, "second")
	outcomes, release := behind(t, s, doing(func() error { return complete(s, first) }), claiming(s, params("second")))
	patient := openPool(t, url+"&options=-c%20deadlock_timeout%3D20s") // so that the other one is given up
	err := pgx.BeginFunc(ctx, patient, func(tx pgx.Tx) error {
		lock := func(k retrysafe.Key) error {
			d := k.Digest()
			_, err := tx.Exec(ctx, fmt.Sprintf("UPDATE retrysafe.claims SET attempt = attempt WHERE k = '%x'", d[:]))
			return err
		}
		if err := lock(second.Key); err != nil {
			return err
		}
		release()
		eventually(t, "the batch waits for the second key", func() bool { return lockWaits(t, s) == 1 })
		return lock(first.Key)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-outcomes[0]; got.err != nil {
		t.Errorf("the completion = %v", got.err)
	}
	if got := <-outcomes[1]; got.err != nil || got.claim.Verdict != retrysafe.InFlight {
		t.Errorf("the claim = %v, %v", got.claim.Verdict, got.err)
	}
	patient.Close()
	if n := deadlocks(t, s); n != 1 {
		t.Errorf("%d deadlocks, want the one that was made", n)
	}
}

// openSeveral returns stores on one database.
func openSeveral(t *testing.T) []*Store {
	t.Helper()
	url := shared.Get(t).Database(t) + "&options=-c%20deadlock_timeout%3D50ms"
	return []*Store{openAt(t, url, Options{}), openAt(t, url, Options{}), openAt(t, url, Options{Lanes: 2})}
}

func deadlocks(t *testing.T, stores ...*Store) int {
	t.Helper()
	settleCounts(t, stores...)
	return value[int](t, stores[0], "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}

// Seen to fail with the filter at the head of carry taken out: the keys were claimed for callers who had left.
func TestQueueForgetsThoseWhoLeft(t *testing.T) {
	t.Parallel()
	s := openOneLane(t)
	ctx, cancel := context.WithCancel(context.Background())
	var calls []func() (retrysafe.Claim, error)
	for i := range 50 {
		calls = append(calls, func() (retrysafe.Claim, error) { return s.Claim(ctx, params(fmt.Sprint("left ", i))) })
	}
	// One stays, so that the batch is made.
	outcomes, release := behind(t, s, append(calls, claiming(s, params("stays")))...)
	cancel()
	for _, o := range outcomes[:50] { // at once: the lane is still held up
		if got := <-o; !errors.Is(got.err, context.Canceled) {
			t.Errorf("a claim whose caller has left = %v", got.err)
		}
	}
	release()
	if got := <-outcomes[50]; got.err != nil || got.claim.Verdict != retrysafe.Acquired {
		t.Errorf("a claim whose caller has stayed = %v, %v", got.claim.Verdict, got.err)
	}
	if n := value[int](t, s, "SELECT count(*) FROM {{schema}}.claims WHERE id LIKE 'left%'"); n != 0 {
		t.Errorf("%d keys were claimed for nobody", n)
	}
}

// Seen to fail with leave emptied: the lane waited for the row, and its goroutine with it.
func TestLeavingWhileTheServerWorks(t *testing.T) {
	t.Parallel()
	s := openOneLane(t)
	lease := acquire(t, s, "locked")
	unlock := lockRow(t, s, lease.Key)
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error)
	go func() { left <- s.Extend(ctx, lease, time.Minute) }()
	eventually(t, "the server waits for the row", func() bool { return lockWaits(t, s) > 0 })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("Extend = %v", err)
	}
	eventually(t, "the lane has ended", func() bool { return s.lanes.running() == 0 })
	eventually(t, "the server has given up", func() bool { return lockWaits(t, s) == 0 })
	unlock()
	acquire(t, s, "next")
}

// Not parallel: it counts the goroutines of the process.
// Seen to fail with board never ending a lane.
func TestNothingIsLeftRunning(t *testing.T) {
	url := shared.Get(t).Database(t)
	s := openAt(t, url, Options{})
	before := runtime.NumGoroutine()
	together(t, 100, func(i int) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
		defer cancel()
		_, err := s.Claim(ctx, params(fmt.Sprint("id ", i%10)))
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	})
	eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

// Seen to fail with the wait taken out of lanes.close.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	s := openOneLane(t)
	outcomes, release := behind(t, s, claiming(s, params("waits")))
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "the store takes nothing more", s.lanes.refuses)
	select {
	case <-closed:
		t.Error("Close does not wait for what is under way")
	default:
	}
	release()
	if o := <-outcomes[0]; o.err != nil || o.claim.Verdict != retrysafe.Acquired {
		t.Errorf("the claim under way = %v, %v", o.claim.Verdict, o.err)
	}
	<-closed
	_, err := s.Claim(context.Background(), params("late"))
	_, _, watch := s.Watch(context.Background(), params("late").Key)
	for _, err := range []error{err, watch, complete(s, retrysafe.Lease{})} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("a call after Close = %v, want ErrClosed", err)
		}
	}
}

// A row that somebody's open transaction holds hurts those who want that row, if the role has a limit, and nobody else.
// Seen to fail with carryAlone left out of carry.
func TestLimitsOfTheRole(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"lock_timeout", "statement_timeout"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			url := shared.Get(t).Database(t)
			s := openAt(t, url+"&"+limit+"=300", Options{Lanes: 1})
			patient := openAt(t, url, Options{})
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

// Seen to fail, by hanging, with context.Background() given to Acquire.
func TestPoolTakenByOthers(t *testing.T) {
	t.Parallel()
	s := openAt(t, shared.Get(t).Database(t)+"&pool_max_conns=2", Options{Timeout: time.Second})
	ctx := context.Background()
	for range 2 {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := s.Claim(short, params("k")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a claim with a deadline = %v", err)
	}
	together(t, 20, func(i int) error {
		_, err := s.Claim(ctx, params(fmt.Sprint("id ", i)))
		if err == nil || !strings.Contains(err.Error(), "connect") {
			return fmt.Errorf("a claim without a connection = %w, want one that says so", err)
		}
		return nil
	})
}
