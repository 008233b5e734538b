package natsstore

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Seen to fail with drift ignored, and with asked and answered exchanged.
func TestReadingBoundsTheServersClock(t *testing.T) {
	t.Parallel()
	asked := time.Now()
	const trip = 30 * time.Millisecond
	r := reading{ts: 1_000_000_000, asked: asked, answered: asked.Add(trip)}
	for _, since := range []time.Duration{trip, time.Second, time.Hour} {
		now := asked.Add(since)
		for _, took := range []time.Duration{0, trip / 3, trip} { // until the server read its clock
			for _, wrong := range []float64{0.9995, 1, 1.0005} { // the speed of its clock, measured with ours
				server := r.ts + storekit.Instant(float64((since-took).Microseconds())*wrong)
				if r.low(now) > server || r.high(now) < server {
					t.Errorf("after %v: the server's clock shows %d, the bounds are %d and %d", since, server, r.low(now),
						r.high(now))
				}
			}
		}
		if wide := r.high(now) - r.low(now); wide > 31_000+2*since.Microseconds()/drift {
			t.Errorf("after %v: the bounds are %d µs apart", since, wide)
		}
	}
}

// Seen to fail with each half of outdated taken out, and without Abs.
func TestReadingIsStaleAfterSecondsAndAfterASuspension(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		elapsed, wall time.Duration
		want          bool
	}{
		{time.Second, time.Second, false},
		{time.Second, 1200 * time.Millisecond, false},
		{clockAge + 1, clockAge + 1, true},
		{time.Second, time.Hour, true},
		{time.Second, -time.Hour, true},
	} {
		if got := outdated(c.elapsed, c.wall); got != c.want {
			t.Errorf("after %v, %v by the wall clock: stale %v, want %v", c.elapsed, c.wall, got, c.want)
		}
	}
	now := time.Now()
	r := reading{answered: now.Add(-time.Second)}
	if r.stale(now) || !r.stale(now.Add(clockAge)) {
		t.Errorf("stale after a second, or not after %v", clockAge)
	}
}

// shifted is a stream whose server's clock is set anew.
type shifted struct {
	jetstream.Stream
	by    time.Duration
	asked int
}

func (s *shifted) Info(ctx context.Context, o ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	s.asked++
	info, err := s.Stream.Info(ctx, o...)
	if err == nil {
		info.TimeStamp = info.TimeStamp.Add(s.by)
	}
	return info, err
}

// What this process remembers of the server's clock never ends a lease: the server is asked. Seen to fail with judge
// returning the time that it remembers.
func TestLeaseIsOverOnlyIfTheServerSaysSo(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	acquire(t, s, "k")
	clock := &shifted{Stream: s.clock.stream, by: time.Hour}
	s.clock.stream = clock
	if _, err := s.clock.ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.by, clock.asked = 0, 0 // it was an hour fast, and was set right
	c, err := s.Claim(t.Context(), params("k"))
	if err != nil || c.Verdict != retrysafe.InFlight || clock.asked == 0 {
		t.Errorf("%v, %v, asked %d times; want in flight", c.Verdict, err, clock.asked)
	}
	clock.by = 2 * time.Minute
	s.clock.asking.Lock() // by which nothing asks for the time because what is remembered is old: a test may stand still
	if c, err = s.Claim(t.Context(), params("k")); err != nil || c.Verdict != retrysafe.InFlight {
		t.Errorf("%v, %v; want in flight by the time that was remembered a moment ago", c.Verdict, err)
	}
	if _, err := s.clock.ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err = s.Claim(t.Context(), params("k")); err != nil || c.Verdict != retrysafe.Abandoned {
		t.Errorf("%v, %v; want abandoned", c.Verdict, err)
	}
}

// Where there are replicas, a lease is over later by what their clocks may differ.
// Seen to fail with the tolerance taken out of judge.
func TestToleranceDelaysTheEndOfALease(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	acquire(t, s, "k")
	s.clock.stream = &shifted{Stream: s.clock.stream, by: 2 * time.Minute}
	if _, err := s.clock.ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	for tolerance, want := range map[time.Duration]retrysafe.Verdict{
		0: retrysafe.Abandoned, time.Hour: retrysafe.InFlight,
	} {
		s.clock.tolerance = tolerance
		if c, err := s.Claim(t.Context(), params("k")); err != nil || c.Verdict != want {
			t.Errorf("with the tolerance %v: %v, %v; want %v", tolerance, c.Verdict, err, want)
		}
	}
	for o, want := range map[Options][2]time.Duration{
		{}:                            {0, time.Second},
		{ClockTolerance: time.Minute}: {time.Minute, time.Minute},
		{ClockTolerance: -1}:          {0, 0},
	} {
		if got := [2]time.Duration{tolerance(o, false), tolerance(o, true)}; got != want {
			t.Errorf("%+v: the tolerance is %v, want %v", o, got, want)
		}
	}
}

// A lease that was given up stays over when the entry is stored again, although the clocks of servers may differ.
// Seen to fail with lapsed left out of next.
func TestLeaseThatIsOverStaysOver(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	s.clock.tolerance = time.Hour
	l := acquire(t, s, "k")
	if err := s.Extend(t.Context(), l, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := s.Claim(t.Context(), params("k")); err != nil || got.Verdict != retrysafe.Abandoned {
			t.Errorf("%v, %v; want abandoned", got.Verdict, err)
		}
		if err := s.Checkpoint(t.Context(), l, retrysafe.StepResult{Name: "a"}); err != nil {
			t.Fatal(err)
		}
	}
}

// No entry is deleted before it is over. Seen to fail with needed ignoring Audit, and with the margin taken out.
func TestTTLIsLongerThanTheRecordIsNeeded(t *testing.T) {
	t.Parallel()
	const now = 1_000_000_000_000
	hours := func(n int64) int64 { return n * 3600 * 1_000_000 }
	made := func(state retrysafe.State, ends, key, audit int64, fromNow bool) record {
		return record{
			Record:      storekit.Record{State: state, EndsAt: ends, Keep: storekit.Keep{Key: key, Audit: audit}},
			endsFromNow: fromNow,
		}
	}
	for name, c := range map[string]struct {
		entry
		needed time.Duration
	}{
		"running":        {entry{record: made(retrysafe.Pending, hours(1), hours(2), hours(9), true)}, 3 * time.Hour},
		"absolute":       {entry{record: made(retrysafe.Pending, now+hours(1), hours(2), 0, false)}, 3 * time.Hour},
		"ended":          {entry{record: made(retrysafe.Succeeded, 0, hours(2), hours(9), true)}, 9 * time.Hour},
		"over":           {entry{record: made(retrysafe.Failed, now-hours(9), hours(2), hours(3), false)}, 0},
		"free":           {entry{record: record{}}, 0},
		"older ones too": {entry{older: []record{made(retrysafe.Failed, now, 0, hours(5), false)}}, 5 * time.Hour},
	} {
		if got := c.ttl(now); got < c.needed+margin || got > c.needed+margin+time.Second {
			t.Errorf("%s: the TTL is %v, want %v and %v", name, got, c.needed, margin)
		}
	}
	forever := entry{record: made(retrysafe.Succeeded, 0, math.MaxInt64/1000, 0, true)}
	if got := forever.ttl(now); got != 0 {
		t.Errorf("the TTL of what is kept for centuries is %v, want none", got)
	}
}

// The server deletes what is over by itself. Seen to fail with the header of the TTL left out.
func TestServerDeletesByTTL(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	subject := recordSpace(s.options.Bucket) + "x"
	if _, err := s.publish(t.Context(), subject, []byte("x"), time.Second, nats.Header{}); err != nil {
		t.Fatal(err)
	}
	until(t, "deleted", func() bool {
		_, err := s.reads.GetLastMsgForSubject(t.Context(), subject)
		return errors.Is(err, jetstream.ErrMsgNotFound)
	})
}
