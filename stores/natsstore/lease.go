package natsstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Extend makes the lease run for d from now, even if it has already run out.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return s.underLease(ctx, "extend", l, false, func(e *entry, now storekit.Instant) (*entry, bool, error) {
		if !e.live(now) || !e.PendingUnder(l) {
			return nil, false, retrysafe.ErrLeaseLost
		}
		next := e.next(now)
		next.setLease(d)
		return next, d <= 0, nil
	})
}

// Checkpoint saves one step's result under the lease. If the step's name is already saved, the first result stays. All
// steps of a record are written again with each of them. The first one after a claim or a heartbeat costs a second
// round trip, which reads when the lease ends.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended, and ErrResultTooLarge
// for more than 256 MiB, or the bucket's MaxBytes if that is less, or if the names of steps fill a message.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	if err := storekit.CheckSize(len(step.Data), s.longest); err != nil {
		return fmt.Errorf("checkpoint %s: %w", l.Key, err)
	}
	step = step.Clone()
	return s.underLease(ctx, "checkpoint", l, true, func(e *entry, now storekit.Instant) (*entry, bool, error) {
		switch {
		case !e.live(now) || !e.PendingUnder(l):
			return nil, false, retrysafe.ErrLeaseLost
		case e.hasStep(step.Name):
			return nil, false, nil
		}
		next := e.next(now)
		next.steps = append(slices.Clip(e.steps), step)
		return next, false, nil
	})
}

// Complete saves the result and ends the attempt, even if its lease has run out. When this lease has already
// completed, the first result stays. It returns ErrLeaseLost if another attempt has taken the key over, or if this one
// has released it, and ErrResultTooLarge for more than 256 MiB, or the bucket's MaxBytes if that is less.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, res retrysafe.Result, keep retrysafe.Retention) error {
	if err := storekit.CheckSize(len(res.Meta)+len(res.Body), s.longest); err != nil {
		return fmt.Errorf("complete %s: %w", l.Key, err)
	}
	return s.underLease(ctx, "complete", l, false, func(e *entry, now storekit.Instant) (*entry, bool, error) {
		switch {
		case e.live(now) && e.State.Ended() && e.ClaimedUnder(l):
			return nil, false, nil
		case !e.live(now) || !e.PendingUnder(l):
			return nil, false, retrysafe.ErrLeaseLost
		}
		next := e.next(now)
		next.end(res.State())
		next.Code, next.Omitted, next.Meta, next.Body = int64(res.Code), res.Omitted, res.Meta, res.Body
		next.Keep = storekit.NewKeep(keep)
		return next, true, nil
	})
}

// Release gives the key up at once, without a result: for any request if no steps were saved, for the same request
// if there are any. It returns ErrLeaseLost if another attempt has the key, or if this one has completed.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	return s.underLease(ctx, "release", l, false, func(e *entry, now storekit.Instant) (*entry, bool, error) {
		switch {
		case (!e.live(now) || e.State == retrysafe.Released) && s.replicated:
			// No attempt has the key, or a leader that was cut off does not know of it: see Store.claim.
			next := e.next(now)
			next.key, next.Fence = l.Key, max(e.Fence, l.Fence)
			return next, false, nil
		case !e.live(now) || e.State == retrysafe.Released:
			return nil, false, nil // no attempt has the key
		case !e.PendingUnder(l):
			return nil, false, retrysafe.ErrLeaseLost
		}
		next := e.next(now)
		if len(e.steps) == 0 {
			next.free(now, s.limit()/2)
		} else {
			next.end(retrysafe.Released)
		}
		return next, true, nil
	})
}

// underLease changes the entry of the lease's key. exact says that decide leaves the end of the lease as it is.
func (s *Store) underLease(ctx context.Context, verb string, l retrysafe.Lease, exact bool, decide change) error {
	readable := func(e *entry, now storekit.Instant) (*entry, bool, error) {
		if e.lost {
			return nil, false, errLost
		}
		return decide(e, now)
	}
	if err := s.update(ctx, l.Key.Digest(), s.leases.get(l, exact), readable); err != nil {
		return fmt.Errorf("%s %s: %w", verb, l.Key, err)
	}
	return nil
}
