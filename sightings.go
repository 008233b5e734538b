package retrysafe

import (
	"context"
	"sync"
	"time"
)

// sightings counts what retries find, and saves it in one batch a second, so that it costs a request no call of the
// store. What a process has counted in its last second is lost if it is killed.
type sightings struct {
	keeper SightingKeeper // nil: nothing is counted

	mu      sync.Mutex
	counted map[seenRecord]seenTimes
	waiting bool // a flush is due
	stopped bool

	saving sync.Mutex // held during a call of keeper
}

// seenRecord is what is counted separately.
type seenRecord struct {
	key        Key
	firstFence int64
	kind       SightingKind
}

// seenTimes are how often, and when, by the clock of this process.
type seenTimes struct {
	count       int64
	first, last time.Time
	code        int
}

const (
	saveSightingsEvery = time.Second
	// maxCounted bounds memory if more keys are seen in a second than can be saved: those beyond it are not counted.
	maxCounted = 10 * MaxSightings
)

// seen counts a request that found a record.
func (g *Guard) seen(kind SightingKind, known Record, code int) {
	s := &g.sightings
	if s.keeper == nil || known.FirstFence == 0 {
		return
	}
	id, now := seenRecord{known.Key, known.FirstFence, kind}, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	times, isKnown := s.counted[id]
	switch {
	case s.stopped || !isKnown && len(s.counted) >= maxCounted:
		return
	case !isKnown:
		times.first = now
	}
	times.count++
	times.last, times.code = now, code
	if s.counted == nil {
		s.counted = map[seenRecord]seenTimes{}
	}
	s.counted[id] = times
	g.saveSightingsSoon()
}

// sightingOf is the kind of a request that was refused.
func sightingOf(refused EventKind) SightingKind {
	switch refused {
	case InFlightRefused, WaitTimedOut:
		return SeenInFlight
	case MismatchRefused:
		return SeenMismatch
	}
	return SeenRefused
}

// saveSightingsSoon is called with mu held.
func (e *engine) saveSightingsSoon() {
	if s := &e.sightings; !s.waiting {
		s.waiting = true
		time.AfterFunc(saveSightingsEvery, func() { e.saveSightings(e.background.ctx) })
	}
}

// saveSightings saves a batch, and sees to it that another follows if there is more. What cannot be saved is dropped:
// repeated, it could count twice.
func (e *engine) saveSightings(ctx context.Context) {
	s := &e.sightings
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	s.waiting = false
	batch := s.takeBatch(time.Now())
	s.mu.Unlock()
	if len(batch) > 0 {
		call := newCallContext(ctx, e.storeTimeout)
		_ = s.keeper.AddSightings(call, batch)
		call.End(nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.counted) > 0 && !s.stopped {
		e.saveSightingsSoon()
	}
}

// takeBatch is called with mu held.
func (s *sightings) takeBatch(now time.Time) []KeySighting {
	var batch []KeySighting
	for id, times := range s.counted {
		batch = append(batch, KeySighting{id.key.Digest(), id.firstFence, Sighting{
			Kind: id.kind, Count: times.count, First: now.Sub(times.first), Last: now.Sub(times.last), Code: times.code,
		}})
		delete(s.counted, id)
		if len(batch) == MaxSightings {
			break
		}
	}
	return batch
}

// stopSightings saves what has been counted, as far as ctx lets it, and counts nothing more. After it the keeper is not
// called.
func (e *engine) stopSightings(ctx context.Context) {
	s := &e.sightings
	s.mu.Lock()
	s.stopped = true
	left := len(s.counted)
	s.mu.Unlock()
	for ; left > 0 && ctx.Err() == nil; left -= MaxSightings {
		e.saveSightings(ctx)
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counted)
}
