// Package memstore keeps records in memory: the Store contract at its plainest, and the reference for other stores.
//
// A Store lives as long as its process and serves that process alone; its records are lost when the process ends. It is
// for tests, for development, and for single processes whose callers do not retry across a restart. It starts no
// goroutine and no timer, and needs no Close.
//
//   - memstore.go: Store, its limits, Claim
//   - lease.go: Extend, Checkpoint, Complete, Release
//   - record.go: one record, and what Claim and Inspect show of it
//   - sweep.go: Sweep, and the order in which records are due
//   - inspect.go, purge.go, reopen.go, sightings.go, watch.go, risks.go: Inspector and Finder, Purger, Reopener,
//     SightingKeeper, Watcher, RiskReporter
//
// Three orders hold every record: the index by key, the ring of arrival for listings, and the schedule of sweeping. All
// of them change under one mutex, which no method holds while it copies a body.
package memstore

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Options of a Store. Options{} works.
type Options struct {
	// MaxKeys is how many records the store holds at most. Default one million.
	MaxKeys int
	// MaxBytes is how much memory the records may take, as Stats estimates it. Results and steps of running attempts
	// are accepted beyond it; new keys are not. Default 1 GiB.
	MaxBytes int64
	// Clock tells the time that has passed since some fixed moment; it never goes back, and is called from many
	// goroutines. Tests set it to let time pass. Default: the process's monotonic clock, which does not follow steps
	// of the wall clock.
	Clock func() time.Duration
}

func (o Options) withDefaults() Options {
	if o.MaxKeys <= 0 {
		o.MaxKeys = 1_000_000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.Clock == nil {
		start := time.Now()
		o.Clock = func() time.Duration { return time.Since(start) }
	}
	return o
}

// Store implements retrysafe.Store, Sweeper, Watcher, Inspector, Finder, SightingKeeper, Purger and Reopener. It is
// safe for concurrent use.
//
// At its limits it refuses new keys with retrysafe.ErrStoreFull, and never deletes a record early. Each new key sweeps
// two records that are due, so that a Store does not grow even if Sweep is never called.
type Store struct {
	options Options
	// epoch added to the clock gives fences that keep growing when the process starts again.
	epoch time.Duration

	mu      sync.Mutex
	fence   int64                        // the last one given out
	bytes   int64                        // what all records take
	records map[retrysafe.Digest]*record // the newest of each key
	arrived record                       // not a record: the end of the ring of all records; its next is the newest
	due     schedule                     // all records, the first to sweep on top
	watches storekit.Watches
}

var (
	_ retrysafe.Store          = (*Store)(nil)
	_ retrysafe.Sweeper        = (*Store)(nil)
	_ retrysafe.Watcher        = (*Store)(nil)
	_ retrysafe.Inspector      = (*Store)(nil)
	_ retrysafe.Finder         = (*Store)(nil)
	_ retrysafe.SightingKeeper = (*Store)(nil)
	_ retrysafe.Purger         = (*Store)(nil)
	_ retrysafe.Reopener       = (*Store)(nil)
	_ retrysafe.RiskReporter   = (*Store)(nil)
)

// New returns an empty Store.
func New(o Options) *Store {
	o = o.withDefaults()
	s := &Store{
		options: o,
		epoch:   epochOf(o.Clock),
		records: make(map[retrysafe.Digest]*record),
	}
	s.arrived.next, s.arrived.prev = &s.arrived, &s.arrived
	return s
}

// epochOf returns when a clock began. Of two looks the later counts, because a goroutine that is kept waiting between
// time.Now and the clock finds an earlier time: what stores with the same clock have claimed would not be in order.
func epochOf(clock func() time.Duration) time.Duration {
	look := func() time.Duration { return time.Duration(time.Now().UnixNano()) - clock() }
	return max(look(), look())
}

// Claim takes the key for one attempt, or reports who has it.
// It returns ErrStoreFull, with what to do about it, if a new key would exceed the limits.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (c retrysafe.Claim, err error) {
	if err := ctx.Err(); err != nil {
		return c, err
	}
	p.Keep = p.Keep.WithDefaults()
	err = s.claim(&p, &c)
	// Copied outside of claim, so that other callers do not wait for the copying of a large body.
	storekit.Unshare(&c.Record)
	return c, err
}

// claim returns a record that shares its bytes with the store.
func (s *Store) claim(p *retrysafe.ClaimParams, c *retrysafe.Claim) error {
	digest := p.Key.Digest()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock()
	r := s.live(digest, now)
	if r == nil {
		if err := s.makeRoom(p, now); err != nil {
			return err
		}
		r = s.add(digest, p, now)
	}
	c.Verdict = r.verdict(p, now)
	if c.Verdict == retrysafe.Acquired {
		s.acquire(r, p, now)
		c.Lease = retrysafe.Lease{Key: r.key, Owner: r.owner, Fence: r.fence}
	}
	c.Record = r.forClaim(now)
	return nil
}

// live returns the record that takes part in claims, or nil.
func (s *Store) live(d retrysafe.Digest, now time.Duration) *record {
	r := s.records[d]
	if r == nil || r.expired(now) {
		return nil
	}
	return r
}

// makeRoom sweeps two records that are due, or, in a full store, as many as it takes for a new record to fit. It
// returns ErrStoreFull if nothing more is due.
func (s *Store) makeRoom(p *retrysafe.ClaimParams, now time.Duration) error {
	const aLittle = 2 // more than the one record that follows, so that sweeping keeps up with claiming
	for range aLittle {
		s.sweepNext(now)
	}
	need := overhead + int64(len(p.Key.Scope)+len(p.Key.ID)+len(p.Fingerprint)+len(p.Tags.String()))
	for s.due.Len() >= s.options.MaxKeys || s.bytes+need > s.options.MaxBytes {
		if !s.sweepNext(now) {
			return fmt.Errorf("%w: %d of %d keys, %d of %d bytes; raise memstore.Options, shorten the Retention, "+
				"or use a store on disk", retrysafe.ErrStoreFull,
				s.due.Len(), s.options.MaxKeys, s.bytes, s.options.MaxBytes)
		}
	}
	return nil
}

// acquire gives r to p.Owner under a new fence, or under the same fence if p.Owner has the key already.
func (s *Store) acquire(r *record, p *retrysafe.ClaimParams, now time.Duration) {
	if !r.heldBy(p.Owner) {
		r.state = retrysafe.Pending
		r.owner = p.Owner
		r.fence = s.nextFence(now)
		r.attempt++
		if r.attempt == 1 {
			r.firstFence = r.fence
		}
	}
	r.keep = p.Keep
	r.endsAt = after(now, p.Lease)
	s.changed(r)
}

// nextFence returns a fence larger than all before it, of any key, so that fences grow for a key whose record has been
// deleted too.
func (s *Store) nextFence(now time.Duration) int64 {
	s.fence = max(s.fence+1, (s.epoch + now).Microseconds())
	return s.fence
}

// after returns t + d, or the last instant that fits if the sum would overflow.
func after(t, d time.Duration) time.Duration {
	if sum := t + d; d <= 0 || sum > t {
		return sum
	}
	return math.MaxInt64
}
