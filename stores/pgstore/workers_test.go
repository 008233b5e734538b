package pgstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Seen to fail with the filter at the head of run taken out: the keys were claimed for callers who had left.
func TestQueueForgetsThoseWhoLeft(t *testing.T) {
	t.Parallel()
	s := openOneWorker(t)
	ctx, cancel := context.WithCancel(context.Background())
	var calls []func() (retrysafe.Claim, error)
	for i := range 50 {
		calls = append(calls, func() (retrysafe.Claim, error) { return s.Claim(ctx, params(fmt.Sprint("left ", i))) })
	}
	// One stays, so that the batch is made.
	outcomes, release := behind(t, s, append(calls, claiming(s, params("stays")))...)
	cancel()
	for _, o := range outcomes[:50] { // at once: the worker is still held up
		if got := <-o; !errors.Is(got.err, context.Canceled) {
			t.Errorf("a claim whose caller has left = %v", got.err)
		}
	}
	release()
	if got := <-outcomes[50]; got.err != nil || got.claim.Verdict != retrysafe.Acquired {
		t.Errorf("a claim whose caller has stayed = %v, %v", got.claim.Verdict, got.err)
	}
	if n := value[int](t, s, "SELECT count(*) FROM {{schema}}.claims WHERE id LIKE 'left%'"); n != 0 {
		t.Errorf("%d keys were claimed for callers that had left", n)
	}
}

// Seen to fail with leave emptied: the worker waited for the row, and its goroutine with it.
func TestLeavingWhileTheServerWorks(t *testing.T) {
	t.Parallel()
	s := openOneWorker(t)
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
	eventually(t, "the worker has ended", func() bool { return running(s) == 0 })
	eventually(t, "the server has given up", func() bool { return lockWaits(t, s) == 0 })
	unlock()
	acquire(t, s, "next")
}

// Not parallel: other stores have goroutines too.
// Seen to fail with refill that ends no worker.
func TestNothingIsLeftRunning(t *testing.T) {
	url := shared.Get(t).Database(t)
	s := openAt(t, url, Options{})
	before := len(goroutines())
	together(t, 100, func(i int) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
		defer cancel()
		_, err := s.Claim(ctx, params(fmt.Sprint("id ", i%10)))
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(goroutines(), "\n\n"))
		}
	})
	eventually(t, "all goroutines have ended", func() bool { return len(goroutines()) <= before })
}

// goroutines returns the stacks of those that a Store has started. Those of the pool come and go by themselves.
func goroutines() []string {
	all := make([]byte, 64<<20)
	stacks := strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n")
	return slices.DeleteFunc(stacks, func(stack string) bool {
		_, by, _ := strings.Cut(stack, "created by ")
		return !strings.HasPrefix(by, "github.com/retrysafe/retrysafe/stores/pgstore.(*") &&
			!strings.HasPrefix(by, "github.com/retrysafe/retrysafe/internal/storekit.(*Workers")
	})
}

// Seen to fail with the wait taken out of Workers.Close.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	s := openOneWorker(t)
	outcomes, release := behind(t, s, claiming(s, params("waits")))
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "the store takes nothing more", func() bool { _, _, _, closed := s.batcher.Workers.State(); return closed })
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
