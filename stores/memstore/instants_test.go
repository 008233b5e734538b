package memstore_test

import (
	"math"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Deadlines are exact: a lease and each window end at their instant. Seen to fail with each comparison of leaseRuns,
// expired and readable moved by one.
func TestInstants(t *testing.T) {
	s, clock := open(memstore.Options{})
	at := func(now time.Duration, want retrysafe.Verdict, wantBody string, wantReadable int) {
		t.Helper()
		clock.now = now
		if found, err := s.Inspect(ctx, params("k").Key.Digest()); len(found) != wantReadable || err != nil {
			t.Errorf("at %v: got %d readable records, %v; want %d", now, len(found), err, wantReadable)
		}
		c, err := s.Claim(ctx, params("k"))
		if err != nil || c.Verdict != want || string(c.Record.Result.Body) != wantBody {
			t.Errorf("at %v: got %q with %q, %v; want %q with %q",
				now, c.Verdict, c.Record.Result.Body, err, want, wantBody)
		}
	}
	take(t, s, "k")
	at(time.Minute-1, retrysafe.InFlight, "", 1)
	at(time.Minute, retrysafe.Abandoned, "", 1)
	at(time.Minute+window-1, retrysafe.Abandoned, "", 1)
	at(time.Minute+window, retrysafe.Acquired, "", 0)

	s, clock = open(memstore.Options{})
	r := retrysafe.Result{Body: []byte("b")}
	keep := retrysafe.Retention{Replay: window, Key: 2 * window, Audit: 3 * window}
	if err := s.Complete(ctx, take(t, s, "k"), r, keep); err != nil {
		t.Fatal(err)
	}
	at(window-1, retrysafe.Done, "b", 1)
	at(window, retrysafe.Done, "", 1)
	at(2*window-1, retrysafe.Done, "", 1)
	at(2*window, retrysafe.Acquired, "", 1)
	at(3*window-1, retrysafe.Abandoned, "", 2)
	at(3*window, retrysafe.Abandoned, "", 1)
}

// The fence is the clock in microseconds where that is larger than the last one. Seen to fail without the clock.
func TestFenceFollowsTheClock(t *testing.T) {
	before := time.Now().UnixMicro()
	s, clock := open(memstore.Options{})
	first := take(t, s, "1")
	after := time.Now().UnixMicro()
	if first.Fence < before || first.Fence > after {
		t.Errorf("got %d, want the time, %d to %d", first.Fence, before, after)
	}
	clock.now = time.Second
	if got, want := take(t, s, "2").Fence, first.Fence+1_000_000; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	if got, want := take(t, s, "3").Fence, first.Fence+1_000_001; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

// Fences grow from one store to the next, whatever the clocks say: a clock that starts late adds nothing to the epoch.
func TestFenceOfALateClock(t *testing.T) {
	clock := &manual{now: 1000 * time.Hour}
	before := time.Now().UnixMicro()
	s := memstore.New(memstore.Options{Clock: clock.read})
	if got := take(t, s, "1").Fence; got < before || got > time.Now().UnixMicro() {
		t.Errorf("got %d, want the time, about %d", got, before)
	}
}

// A lease without end does not expire, however short its retention. Seen to fail with a sum that wraps around.
func TestLastInstant(t *testing.T) {
	s, clock := open(memstore.Options{})
	p := params("k")
	p.Lease, p.Keep = math.MaxInt64, retrysafe.Retention{Replay: 1}
	if _, err := s.Claim(ctx, p); err != nil {
		t.Fatal(err)
	}
	clock.now = math.MaxInt64 - 1
	if c, err := s.Claim(ctx, params("k")); err != nil || c.Verdict != retrysafe.InFlight {
		t.Errorf("got %q, %v; want in flight", c.Verdict, err)
	}
}

// The body is readable until the last nanosecond of Audit. Seen to fail with > 1 in forPeople.
func TestInstantOfAudit(t *testing.T) {
	s, clock := open(memstore.Options{})
	l := take(t, s, "k")
	keep := retrysafe.Retention{Replay: window, Key: 2 * window}
	if err := s.Complete(ctx, l, retrysafe.Result{Body: []byte("b")}, keep); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"b", ""} {
		clock.now = window - 1 + time.Duration(i)
		found, err := s.Inspect(ctx, l.Key.Digest())
		if err != nil || len(found) != 1 || string(found[0].Result.Body) != want {
			t.Errorf("at %v: got %v, %v; want one record with body %q", clock.now, found, err, want)
		}
	}
}
