package reportcmd

import (
	"crypto/sha256"
	"time"
)

// seen remembers what it has met for a time, as digests, in bounded memory.
type seen struct {
	window    time.Duration
	limit     int
	last      map[[16]byte]span
	queue     []met // the oldest first
	newest    time.Time
	forgotten int64 // dropped because there were too many
}

// span is the time in which a request ran.
type span struct{ start, end time.Time }

// met is when something was met. It may have been met again since.
type met struct {
	digest [16]byte
	at     time.Time
}

func newSeen(window time.Duration, limit int) *seen {
	return &seen{window: window, limit: limit, last: map[[16]byte]span{}}
}

// meet notes that something was met. If that happened within the window before, it returns when it last ended.
func (s *seen) meet(what string, at span) (last span, before bool) {
	sum := sha256.Sum256([]byte(what))
	d := [16]byte(sum[:16])
	if at.end.After(s.newest) {
		s.newest = at.end
	}
	s.dropOld()
	last, before = s.last[d]
	switch {
	case !before:
		if len(s.last) >= s.limit {
			s.dropOldest()
		}
		s.queue = append(s.queue, met{d, at.end})
		s.last[d] = at
	case at.end.After(last.end):
		s.last[d] = at
	}
	return last, before && at.end.Sub(last.end) <= s.window
}

// dropOld drops what was last met before the window.
func (s *seen) dropOld() {
	for len(s.queue) > 0 {
		first := s.queue[0]
		if !first.at.Before(s.newest.Add(-s.window - disorder)) {
			return
		}
		s.queue = s.queue[1:]
		if last := s.last[first.digest].end; last.After(first.at) {
			s.queue = append(s.queue, met{first.digest, last})
		} else {
			delete(s.last, first.digest)
		}
	}
}

// dropOldest drops what was first met longest ago.
func (s *seen) dropOldest() {
	first := s.queue[0]
	s.queue = s.queue[1:]
	delete(s.last, first.digest)
	s.forgotten++
}
