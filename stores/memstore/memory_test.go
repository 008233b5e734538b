package memstore_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// The default clock is that of a synctest bubble, so that tests let time pass at no cost; no goroutine is left behind.
func TestInsideABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Options{})
		l := take(t, s, "k")
		time.Sleep(time.Minute)
		if c, err := s.Claim(ctx, params("k")); err != nil || c.Verdict != retrysafe.Abandoned {
			t.Errorf("got %q, %v; want abandoned", c.Verdict, err)
		}
		complete(t, s, l, "answer")
		time.Sleep(window)
		if got := take(t, s, "k"); got.Fence <= l.Fence {
			t.Errorf("got fence %d after %d", got.Fence, l.Fence)
		}
	})
}

func wantAllocs(t *testing.T, want float64, do func()) {
	t.Helper()
	if got := testing.AllocsPerRun(1000, do); got > want {
		t.Errorf("got %v allocations, want at most %v", got, want)
	}
}

// A fresh claim allocates the record; now and then, more room for the index and the schedule. Seen to fail with one
// more allocation.
func TestAllocsOfAFreshClaim(t *testing.T) {
	s, _ := open(memstore.Options{})
	ids := make([]retrysafe.ClaimParams, 1001) // AllocsPerRun runs once more, to warm up
	for i := range ids {
		ids[i] = params(fmt.Sprint(i))
	}
	next := 0
	wantAllocs(t, 1, func() {
		s.Claim(ctx, ids[next])
		next++
	})
}

// A replay allocates the copy of Meta and Body. Seen to fail with a copy of each.
func TestAllocsOfAReplay(t *testing.T) {
	s, _ := open(memstore.Options{})
	l := take(t, s, "k")
	r := retrysafe.Result{Code: 201, Meta: []byte("meta"), Body: make([]byte, 10_000)}
	if err := s.Complete(ctx, l, r, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	p := params("k")
	wantAllocs(t, 1, func() { s.Claim(ctx, p) })
}

// A caller that is told that the key is in flight, and a heartbeat, allocate nothing.
func TestAllocsWhileInFlight(t *testing.T) {
	s, _ := open(memstore.Options{})
	l := take(t, s, "k")
	p := params("k")
	wantAllocs(t, 0, func() { s.Claim(ctx, p) })
	wantAllocs(t, 0, func() { s.Extend(ctx, l, time.Minute) })
}

func BenchmarkFreshPair(b *testing.B) {
	s, _ := open(memstore.Options{MaxKeys: 1 << 40, MaxBytes: 1 << 50})
	result := retrysafe.Result{Code: 201, Meta: []byte("meta"), Body: []byte("answer")}
	b.ReportAllocs()
	p := params("")
	for i := 0; b.Loop(); i++ {
		p.Key.ID = fmt.Sprint(i)
		c, err := s.Claim(ctx, p)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Complete(ctx, c.Lease, result, retrysafe.Retention{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	s, _ := open(memstore.Options{})
	p := params("k")
	c, err := s.Claim(ctx, p)
	if err != nil {
		b.Fatal(err)
	}
	result := retrysafe.Result{Code: 201, Meta: []byte("meta"), Body: []byte("answer")}
	if err := s.Complete(ctx, c.Lease, result, retrysafe.Retention{}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Claim(ctx, p)
	}
}

// The fences of stores that share a clock are in the order of the claims, also if New was kept waiting for the clock once.
// Seen to fail with one look at the clock.
func TestFencesOfStoresWithOneClockAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() time.Duration { return time.Since(start) }
		var slow sync.Once
		slowOnce := func() time.Duration {
			slow.Do(func() { time.Sleep(time.Second) })
			return clock()
		}
		var last int64
		for i, s := range []*memstore.Store{
			memstore.New(memstore.Options{Clock: clock}), memstore.New(memstore.Options{Clock: slowOnce}),
		} {
			time.Sleep(time.Millisecond)
			c, err := s.Claim(t.Context(), params("k"))
			if err != nil || c.Lease.Fence <= last {
				t.Errorf("store %d: fence %d after %d, %v", i, c.Lease.Fence, last, err)
			}
			last = c.Lease.Fence
		}
	})
}
