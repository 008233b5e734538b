package natsstore

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// clockAge is after how long the server is asked for its time again.
	clockAge = 5 * time.Second
	// A monotonic clock is assumed to run wrong by no more than one part in drift, ten times what NTP corrects.
	drift = 1000
	// A wall clock that moves this much against the monotonic one was set, or the machine was suspended.
	jump = time.Second
)

// clock knows the time of the server that leads the stream, from its last answer and this machine's monotonic clock.
// The wall clock of this machine is not used, so that it may be wrong.
type clock struct {
	stream    jetstream.Stream
	tolerance time.Duration

	asking sync.Mutex
	mu     sync.Mutex
	last   reading
	room   room // as of the last answer
}

// reading is one answer of the server: its clock showed ts at some moment between asked and answered.
type reading struct {
	ts              storekit.Instant
	asked, answered time.Time
}

// low returns a time that the server's clock has reached, high one that it has not passed.
func (r reading) low(now time.Time) storekit.Instant {
	since := now.Sub(r.answered).Microseconds()
	return r.ts + since - since/drift
}

func (r reading) high(now time.Time) storekit.Instant {
	since := now.Sub(r.asked).Microseconds()
	return r.ts + since + since/drift + 1
}

// stale reports whether the server should be asked again.
func (r reading) stale(now time.Time) bool {
	wall := now.Round(0).Sub(r.answered.Round(0)) // Round(0) leaves the wall clock alone
	return outdated(now.Sub(r.answered), wall)
}

// outdated reports whether what was read so long ago, by the monotonic clock and by the wall clock, should be read
// again: after clockAge, and if this machine was suspended, which stops the monotonic clock.
func outdated(elapsed, wall time.Duration) bool {
	return elapsed > clockAge || (wall-elapsed).Abs() > jump
}

// ask asks the server for its time.
func (c *clock) ask(ctx context.Context) (reading, error) {
	asked := time.Now()
	info, err := c.stream.Info(ctx)
	if err != nil {
		return reading{}, err
	}
	r := reading{ts: info.TimeStamp.UnixMicro(), asked: asked, answered: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = r
	c.room.set(info)
	return r, nil
}

// current returns a reading, and asks for a new one if the last is stale. One caller asks while others go on with the
// last one, which stays true: the longer ago it was, the further apart are low and high.
func (c *clock) current(ctx context.Context) reading {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if !last.stale(time.Now()) || !c.asking.TryLock() {
		return last
	}
	defer c.asking.Unlock()
	if r, err := c.ask(ctx); err == nil {
		return r
	}
	return last
}

// judge returns the time at which a record is looked at. That its lease or its retention is over counts only if the
// server says so now: its clock may have been set back since it was asked last, and nothing is read from the clock of
// this machine. asked says that the server was asked: then the time is later than the record, which may have changed
// in between.
func (c *clock) judge(ctx context.Context, e *entry) (now storekit.Instant, asked bool, err error) {
	tolerance := c.tolerance.Microseconds()
	stored := e.stored(tolerance)
	now = max(c.current(ctx).low(time.Now())-tolerance, stored)
	if e.absent() || e.over(now) == e.over(stored) {
		return now, false, nil
	}
	r, err := c.ask(ctx)
	if err != nil {
		return 0, false, err
	}
	return max(r.ts-tolerance, stored), true, nil
}
