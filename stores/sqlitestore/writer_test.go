package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// gate holds the writer up until it is opened, so that operations gather.
func gate(t *testing.T, s *Store) (open func()) {
	t.Helper()
	open, err := s.writer.checkOut(t.Context(), retrysafe.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// gathered waits until n operations are in the queue.
func gathered(t *testing.T, s *Store, n int) {
	t.Helper()
	for s.writer.waiting() < n {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// An operation that fails does not spoil the others of its transaction. Seen to fail with the second try taken out of
// commit.
func TestFailureIsAlone(t *testing.T) {
	s := openTest(t)
	open := gate(t, s)
	boom := errors.New("boom")
	errs := make([]error, 11)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() { _, errs[i] = s.Claim(t.Context(), params(fmt.Sprint(i))) })
	}
	wg.Go(func() {
		errs[10] = s.writer.write(t.Context(), func(t *writeTx) error {
			_, err := t.exec("mark_fence", int64(math.MaxInt64))
			return errors.Join(err, boom)
		})
	})
	gathered(t, s, 11)
	open()
	wg.Wait()
	for i, err := range errs[:10] {
		if err != nil {
			t.Errorf("claim %d: %v", i, err)
		}
		if c, err := s.Claim(t.Context(), params(fmt.Sprint(i))); err != nil || c.Verdict != retrysafe.InFlight {
			t.Errorf("claim %d is not there: %v, %v", i, c.Verdict, err)
		}
	}
	if !errors.Is(errs[10], boom) {
		t.Errorf("got %v, want the operation's own error", errs[10])
	}
	var fence int64
	if err := s.db.QueryRow("SELECT value FROM retrysafe_meta WHERE name = 'fence'").Scan(&fence); err != nil ||
		fence != 0 {
		t.Errorf("the failed operation left %d behind, %v", fence, err)
	}
}

// Operations that wait together are committed together. Seen to fail with take returning one operation.
func TestGroupCommit(t *testing.T) {
	s := openTest(t)
	commits := 0
	saved := s.writer.saved
	open := gate(t, s)
	s.writer.saved = func(t *writeTx, n int) { commits++; saved(t, n) }
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if _, err := s.Claim(t.Context(), params(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	gathered(t, s, 100)
	open()
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if commits != 1 {
		t.Errorf("got %d transactions for 100 claims that waited together, want 1", commits)
	}
}

// A caller that gives up while it waits has done nothing. Seen to fail with withdrawn operations served.
func TestWithdrawn(t *testing.T) {
	s := openTest(t)
	open := gate(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	claimed := make(chan error)
	go func() {
		_, err := s.Claim(ctx, params("a"))
		claimed <- err
	}()
	gathered(t, s, 1)
	cancel()
	if err := <-claimed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	open()
	if c, err := s.Claim(t.Context(), params("a")); err != nil || c.Verdict != retrysafe.Acquired ||
		c.Record.Attempt != 1 {
		t.Errorf("got %v and %v, want a free key", c.Verdict, err)
	}
}

// Callers that give up leave nothing behind in the queue. Seen to fail with withdrawn operations left there, and to
// hang with the context taken out of submit.
func TestGivingUp(t *testing.T) {
	s := openTest(t)
	open := gate(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	const callers = 1000
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if _, err := s.Claim(ctx, params(fmt.Sprint(i))); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want Canceled", err)
			}
		})
	}
	gathered(t, s, callers)
	cancel()
	wg.Wait()
	if n := s.writer.waiting(); n != 0 {
		t.Errorf("%d operations are still queued", n)
	}
	open()
	if err := completeOne(t.Context(), s, 1); err != nil {
		t.Error(err)
	}
}

// A caller behind the holder of the connection can give up too. Seen to hang with take not stopping at holders.
func TestGivingUpBehindAHolder(t *testing.T) {
	s := openTest(t)
	first := gate(t, s)
	returns := make(chan func())
	go func() {
		back, err := s.writer.checkOut(t.Context(), retrysafe.Lease{})
		if err != nil {
			t.Error(err)
		}
		returns <- back
	}()
	gathered(t, s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	claimed := make(chan error)
	go func() {
		_, err := s.Claim(ctx, params("a"))
		claimed <- err
	}()
	gathered(t, s, 2)
	first()
	back := <-returns
	cancel()
	if err := <-claimed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	back()
}

// A claim leaves room for a result of the usual size, so that completing it moves no other row, and never for a huge
// one. Seen to fail with adaptRoom taken out, and with its bound.
func TestRoomForTheResult(t *testing.T) {
	s := openTest(t)
	for _, c := range []struct{ body, least, most int }{{300, 290, 300}, {1 << 20, maxRoom - 10, maxRoom}, {0, 0, 10}} {
		for i := range 30 {
			l, err := s.Claim(t.Context(), params(fmt.Sprint(c.body, "-", i)))
			if err == nil {
				err = s.Complete(t.Context(), l.Lease, retrysafe.Result{Body: make([]byte, c.body)}, retrysafe.Retention{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Claim(t.Context(), params(fmt.Sprint(c.body, "-next"))); err != nil {
			t.Fatal(err)
		}
		var pending, ended int
		err := s.db.QueryRow(`SELECT (SELECT length(room) FROM retrysafe_records ORDER BY id DESC LIMIT 1),
			(SELECT count(room) FROM retrysafe_records WHERE state > 2)`).Scan(&pending, &ended)
		if err != nil || pending < c.least || pending > c.most || ended != 0 {
			t.Errorf("after results of %d bytes: room for %d, %d ended records still have some, %v", c.body, pending, ended, err)
		}
	}
}

// Close answers all callers. Seen to hang with what is queued left unanswered.
func TestCloseUnderLoad(t *testing.T) {
	s := openTest(t)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for {
				err := completeOne(context.Background(), s, i)
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, retrysafe.ErrLeaseLost) {
					t.Error(err)
					return
				}
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
