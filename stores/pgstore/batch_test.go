package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// openOneWorker returns a store that makes one batch at a time, however long that takes.
func openOneWorker(t testing.TB) *Store {
	t.Helper()
	return openOneWorkerAt(t, shared.Get(t).Database(t))
}

func openOneWorkerAt(t testing.TB, url string) *Store {
	t.Helper()
	s := openAt(t, url, Options{Connections: 1})
	s.batcher.Workers.Limit = 1
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

// behind makes calls that wait for the store's worker until release.
func behind(t *testing.T, s *Store, calls ...func() (retrysafe.Claim, error)) (outcomes []chan outcome,
	release func(),
) {
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
	eventually(t, "all calls wait for the worker", func() bool { return queued(s) == len(calls) })
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

// A few batches answer any number of claims of one key: one read is enough for all, and each caller gets bytes of its
// own. Seen to fail with each reader of a key in a batch of its own, and with one record handed to all of them.
func TestBurstOnOneKey(t *testing.T) {
	t.Parallel()
	s := openOneWorker(t)
	var batches atomic.Int64
	run := s.batcher.Workers.Run
	s.batcher.Workers.Run = func(ops []operation) []operation {
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
			if err := s.Complete(t.Context(), o.claim.Lease, retrysafe.Result{Body: []byte("answer")},
				retrysafe.Retention{}); err != nil {
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
// Seen to fail with the search for the key taken out of Batch.add: a statement met a row twice (21000).
func TestSameKeyInOneBatch(t *testing.T) {
	t.Parallel()
	s := openOneWorker(t)
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
	s := openOneWorker(t)
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

// Seen to fail with runAlone left out of run: all fifty failed.
func TestPoisonHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	s := openOneWorker(t)
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
