package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// defaultTryTimeout is how long the first try may take before it is repeated: its request may have reached a server
	// that has just died. Each further try may take twice as long, because the servers may be slow, or the record large.
	defaultTryTimeout = 2 * time.Second
	// Pauses before a call is tried again. They grow; after a conflict they are short, since the other write is done.
	conflictPause, lastConflictPause = time.Millisecond, 50 * time.Millisecond
	failurePause, lastFailurePause   = 20 * time.Millisecond, 500 * time.Millisecond
)

// change decides what becomes of an entry. It returns the next version, or nil if nothing changes, and ended if that
// version ends an attempt. It may be called several times, with what other writers have left.
type change func(e *entry, now storekit.Instant) (next *entry, ended bool, err error)

// update reads an entry, lets decide change it, and writes the next version on condition that the entry is still the
// one that was read. Otherwise it begins again. first, if it is not nil, is what the entry is expected to be, and saves
// the first read: a wrong guess costs a round trip and changes nothing else.
//
// A call whose answer was lost is repeated like this too. decide then finds what the lost call has written.
func (s *Store) update(ctx context.Context, d retrysafe.Digest, first *entry, decide change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	e := first
	doubted := false // the write of an earlier try may be made yet
	for tries := 0; ; tries++ {
		err := s.try(limited, s.tryTimeout<<min(tries, 10), d, e, decide)
		switch {
		case doubted && errors.Is(err, retrysafe.ErrStoreFull): // which would say that nothing is made
			return fmt.Errorf("an earlier try got no answer, and whether it has happened is unknown; then: %s", err.Error())
		case err == nil || !temporary(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		switch {
		case errors.Is(err, errConflict):
			s.leases.drop(d)
		default:
			doubted = true
		}
		if !pauseFor(limited, err, tries) {
			return s.givenUp(ctx, err)
		}
		e = nil
	}
}

// givenUp returns the error of a call that was tried until its time was over.
func (s *Store) givenUp(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("no answer from a majority of the servers within %v, and whether it has happened is unknown: %w",
		s.options.Timeout, err)
}

// pauseFor waits before the next try. It returns false if ctx ends before.
func pauseFor(ctx context.Context, err error, tries int) bool {
	pause, last := failurePause, lastFailurePause
	if errors.Is(err, errConflict) {
		pause, last = conflictPause, lastConflictPause
	}
	pause = min(pause<<min(tries, 10), last)
	t := time.NewTimer(rand.N(pause) + 1)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try is one round of update.
func (s *Store) try(ctx context.Context, timeout time.Duration, d retrysafe.Digest, e *entry, decide change,
) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	remembered := e != nil
	if !remembered {
		if e, err = s.read(ctx, d); err != nil {
			return err
		}
	}
	now, asked, err := s.clock.judge(ctx, e)
	if err != nil {
		return err
	}
	next, ended, err := decide(e, now)
	switch {
	case next == nil && remembered: // another process may have written since, and no write of this one would notice
		return s.try(ctx, timeout, d, nil, decide)
	case next == nil && asked: // what was over may have been extended before the server said so
		return cmp.Or(s.unchanged(ctx, d, e), err)
	case err != nil || next == nil:
		return err
	}
	old := e.parts
	if err := s.write(ctx, d, next, e.rev, ended); err != nil {
		// A replicated record that was refused for want of room may have been stored by another server.
		if errors.Is(err, errConflict) || errors.Is(err, retrysafe.ErrStoreFull) && !s.replicated {
			_ = s.dropParts(ctx, d, next.parts) // else they go with their TTL
		}
		return err
	}
	s.leases.keep(d, next, s.clock.current(ctx))
	_ = s.dropParts(ctx, d, old) // else they go with their TTL
	return nil
}

// unchanged returns errConflict if there is another version than e.
func (s *Store) unchanged(ctx context.Context, d retrysafe.Digest, e *entry) error {
	again, err := s.read(ctx, d)
	if err == nil && again.rev != e.rev {
		err = errConflict
	}
	return err
}
