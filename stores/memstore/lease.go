package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Extend makes the lease run for d from now, even if it has already run out.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return s.underLease(ctx, "extend", l, func(r *record, now time.Duration) error {
		if !r.pendingUnder(l) {
			return retrysafe.ErrLeaseLost
		}
		r.endsAt = after(now, d)
		s.changed(r)
		if !r.leaseRuns(now) {
			s.watches.Wake(r.digest)
		}
		return nil
	})
}

// EndLease has the lease of the key's claim with that fence run out now. It returns ErrLeaseLost if the claim does not
// have the key any more.
func (s *Store) EndLease(ctx context.Context, d retrysafe.Digest, fence int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock()
	r := s.live(d, now)
	if r == nil || r.state != retrysafe.Pending || r.fence != fence {
		return fmt.Errorf("end the lease of %s: %w", d, retrysafe.ErrLeaseLost)
	}
	if r.leaseRuns(now) {
		r.endsAt = now
		s.changed(r)
	}
	return nil
}

// Checkpoint saves one step's result under the lease. If the step's name is already saved, the first result stays.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	step = step.Clone()
	return s.underLease(ctx, "checkpoint", l, func(r *record, _ time.Duration) error {
		if !r.pendingUnder(l) {
			return retrysafe.ErrLeaseLost
		}
		if !r.hasStep(step.Name) {
			r.steps = append(r.steps, step)
			s.changed(r)
		}
		return nil
	})
}

// Complete saves the result and ends the attempt, even if its lease has run out. When this lease has already
// completed, the first result stays. It returns ErrLeaseLost if another attempt has taken the key over, or if this one
// has released it.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, res retrysafe.Result, keep retrysafe.Retention) error {
	res = res.Clone()
	return s.underLease(ctx, "complete", l, func(r *record, now time.Duration) error {
		switch {
		case r == nil || !r.lastClaimedUnder(l) || r.state == retrysafe.Released:
			return retrysafe.ErrLeaseLost
		case r.state.Ended():
			return nil
		}
		r.state = res.State()
		r.result = res
		r.keep = keep.WithDefaults()
		r.endsAt = now
		s.changed(r)
		s.watches.Wake(r.digest)
		return nil
	})
}

// Release gives the key up at once, without a result: for any request if no steps were saved, for the same request
// if there are any. It returns ErrLeaseLost if another attempt has the key, or if this one has completed.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	return s.underLease(ctx, "release", l, func(r *record, now time.Duration) error {
		switch {
		case r == nil || r.state == retrysafe.Released:
			return nil // no attempt has the key
		case !r.pendingUnder(l):
			return retrysafe.ErrLeaseLost
		case len(r.steps) == 0:
			s.remove(r)
		default:
			r.state = retrysafe.Released
			r.endsAt = now
			s.changed(r)
		}
		s.watches.Wake(r.digest)
		return nil
	})
}

// underLease calls change with the live record of the lease's key, or with nil if there is none.
func (s *Store) underLease(ctx context.Context, verb string, l retrysafe.Lease,
	change func(r *record, now time.Duration) error,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	digest := l.Key.Digest()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock()
	if err := change(s.live(digest, now), now); err != nil {
		return fmt.Errorf("%s %s: %w", verb, l.Key, err)
	}
	return nil
}

// pendingUnder reports whether the attempt that l names has the key. r may be nil.
func (r *record) pendingUnder(l retrysafe.Lease) bool {
	return r != nil && r.state == retrysafe.Pending && r.lastClaimedUnder(l)
}

func (r *record) lastClaimedUnder(l retrysafe.Lease) bool {
	return r.owner == l.Owner && r.fence == l.Fence
}

func (r *record) hasStep(name string) bool {
	return slices.ContainsFunc(r.steps, func(s retrysafe.StepResult) bool { return s.Name == name })
}
