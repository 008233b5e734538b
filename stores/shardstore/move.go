package shardstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/elapsed"
)

// Move moves keys from the shards of a Store to other ones, without a gap: see the package comment.
type Move struct {
	// To are the shards that have the keys afterwards. One that stays is named in both sets, with the same Store; its
	// keys that do not move are claimed there alone. Required.
	To []Shard
	// Stage is OldDecides, and NewDecides once every process has been at OldDecides. Required.
	Stage Stage
}

// Stage is how far a move is. Before the first one there is a Store of the old shards alone, after the last one a Store
// of the new shards alone. At any time all processes are at the same stage or at two that follow each other.
type Stage uint8

const (
	// OldDecides means that keys are claimed in both stores, and that the old one says what became of them.
	OldDecides Stage = iota + 1
	// NewDecides means that keys are claimed in both stores, and that the new one says what became of them. What it does
	// not know is looked up in the old one.
	NewDecides
)

// String returns "old decides" or "new decides".
func (s Stage) String() string {
	switch s {
	case OldDecides:
		return "old decides"
	case NewDecides:
		return "new decides"
	}
	return fmt.Sprintf("stage %d", uint8(s))
}

// rounds bounds how often a claim begins anew because another process changed the key meanwhile.
const rounds = 8

// part is what one store answered to a claim, and how to give back what it gave.
type part struct {
	of *shard
	retrysafe.Claim
	tookOver bool      // from an attempt that was abandoned, and is abandoned again when this is given back
	at       time.Time // when the answer came
}

// claimBoth claims a key that moves. Only who has it in both stores works on it.
func (s *Store) claimBoth(ctx context.Context, at placement, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	late, doubted := false, false
	for range rounds {
		c, err := s.claimFirst(ctx, at, p)
		doubted = doubted || c.Doubted // in whichever store, and also if that is given back
		c.Doubted = doubted
		if errors.Is(err, errApart) && !late {
			late = true // perhaps one fence is that of an earlier claim, whose answer was lost: it was given back
			continue
		}
		if err != nil || c.Verdict != 0 {
			return c, err
		}
	}
	return retrysafe.Claim{Doubted: doubted}, changesAllTheTime(fmt.Sprintf("claim %s", p.Key), at)
}

func changesAllTheTime(call string, at placement) error {
	return fmt.Errorf("%s in shards %s and %s: other processes change the key all the time",
		call, at.first.Name, at.second.Name)
}

// claimFirst claims in the store that decides, and if it gives the key, in the other. A Claim without a verdict means
// that the key has changed meanwhile.
func (s *Store) claimFirst(
	ctx context.Context, at placement, p retrysafe.ClaimParams,
) (c retrysafe.Claim, err error) {
	asked := p
	asked.TakeOver = false
	first, err := s.claimIn(ctx, at.first, asked)
	doubted := first.Doubted
	defer func() { c.Doubted = c.Doubted || doubted || first.Doubted }()
	if err != nil || first.Verdict == retrysafe.Done {
		return first.Claim, err
	}
	if first.Verdict == retrysafe.Acquired {
		first.tookOver = mayHaveTakenOver(p, first)
		return s.claimSecond(ctx, at, p, first)
	}
	// The attempt may have ended in the other store alone: there it decided, and its process died in between.
	other, err := at.second.look(ctx, p)
	running := other.Verdict == retrysafe.InFlight && first.Verdict == retrysafe.Abandoned
	switch {
	case err != nil || other.Verdict == retrysafe.Done || running:
		return other, err
	case first.Verdict == retrysafe.InFlight, !p.TakeOver, p.Fingerprint != first.Record.Fingerprint:
		return first.Claim, nil
	}
	if first, err = s.claimIn(ctx, at.first, p); err != nil || first.Verdict != retrysafe.Acquired {
		return retrysafe.Claim{}, err
	}
	first.tookOver = true
	return s.claimSecond(ctx, at, p, first)
}

// claimSecond claims in the store that does not decide. If another attempt has or had the key there, it gives the first
// one back.
func (s *Store) claimSecond(
	ctx context.Context, at placement, p retrysafe.ClaimParams, first part,
) (c retrysafe.Claim, err error) {
	_, again := s.leases.of(first.Lease)
	second, err := s.takeSecond(ctx, at, p, first)
	defer func() { c.Doubted = c.Doubted || second.Doubted }()
	switch {
	case err == nil && second.Verdict == retrysafe.Acquired:
		return s.acquired(ctx, p, first, second, again)
	case !again: // otherwise the attempt may be working already, and what it has is not given back
		_ = s.giveBack(ctx, first)
	}
	return second.Claim, err
}

// takeSecond claims in the second store. An unfinished record there says that the outcome is unknown, or what was
// saved. The old store knows whether that still holds, since each attempt is claimed there as long as it decides
// anywhere, and deletes it if it has begun a new record. The new store does not know what was claimed before the move.
func (s *Store) takeSecond(
	ctx context.Context, at placement, p retrysafe.ClaimParams, first part,
) (second part, err error) {
	doubted := false
	defer func() { second.Doubted = doubted }()
	q := p
	q.Owner, q.TakeOver = inSecond(p.Owner), false
	overrules := s.stage == OldDecides
	anew := overrules && first.Record.Attempt == 1 && len(first.Record.Steps) == 0
	for range rounds {
		second, err = s.claimIn(ctx, at.second, q)
		doubted = doubted || second.Doubted
		if err != nil {
			return second, err
		}
		r, abandoned := second.Record, second.Verdict == retrysafe.Abandoned
		switch {
		case second.Verdict == retrysafe.Acquired && anew && (r.Attempt > 1 || len(r.Steps) > 0):
			err = s.wipe(ctx, at.second, r, q.Owner)
		case second.Verdict == retrysafe.Acquired:
			second.tookOver = q.TakeOver || mayHaveTakenOver(p, second)
			return second, nil
		case abandoned && !anew && !q.TakeOver && r.Fingerprint == p.Fingerprint && (overrules || p.TakeOver):
			q.TakeOver = true
			continue
		case overrules && (abandoned || r.State == retrysafe.Released):
			err = s.wipe(ctx, at.second, r, retrysafe.NewOwner())
		default:
			return second, nil
		}
		if q.TakeOver = false; err != nil {
			return part{}, err
		}
	}
	return part{}, nil
}

// mayHaveTakenOver reports whether a claim that did not ask to take over may repeat one of the same owner which has
// taken the key over: then it is given back as an abandoned one.
func mayHaveTakenOver(p retrysafe.ClaimParams, c part) bool {
	return p.TakeOver && c.Record.Attempt > 1
}

// acquired makes one lease of two, and one record: with the steps of both, which it saves in both.
func (s *Store) acquired(
	ctx context.Context, p retrysafe.ClaimParams, first, second part, again bool,
) (retrysafe.Claim, error) {
	known := s.merge(first.Record, second.Record)
	err := errors.Join(first.add(ctx, known.Steps), second.add(ctx, known.Steps))
	if err == nil && !again {
		err = s.waitForClocks(ctx, p, first, second)
	}
	if err == nil && elapsed.Since(first.at) > p.Lease/4 { // the first lease may have run out before the second began
		err = cmp.Or(second.renew(ctx, p), first.renew(ctx, p))
	}
	if err != nil && !again {
		_ = s.giveBack(ctx, second)
		_ = s.giveBack(ctx, first)
	}
	switch {
	case errors.Is(err, retrysafe.ErrLeaseLost):
		return retrysafe.Claim{}, nil
	case err != nil:
		return retrysafe.Claim{}, err
	}
	s.leases.keep(first.Lease, second.Lease, p.Lease)
	first.Record, first.Record.Fence = known, first.Lease.Fence
	return first.Claim, nil
}

// merge returns the record of which one store has the first part, and the other one the second. The new store may not
// know what was claimed before the move: then the record is that of the old one.
func (s *Store) merge(first, second retrysafe.Record) retrysafe.Record {
	known := first
	if s.stage == NewDecides {
		if first.Attempt <= 1 && second.Attempt > 1 {
			known = second
		}
		known.Attempt = max(first.Attempt, second.Attempt)
	}
	known.Steps = append(slices.Clip(first.Steps), lacking(first.Steps, second.Steps)...)
	return known
}

// waitForClocks waits until the clocks of both stores have passed both fences. So a later attempt gets a larger one,
// whichever store decides by then.
func (s *Store) waitForClocks(ctx context.Context, p retrysafe.ClaimParams, a, b part) error {
	if a.Lease.Fence > b.Lease.Fence {
		a, b = b, a
	}
	ahead := time.Duration(b.Lease.Fence-a.Lease.Fence+1) * time.Microsecond
	wait := ahead - time.Since(a.at)
	switch longest := min(maxWait, p.Lease/4); {
	case wait <= 0:
		return nil
	case wait > longest:
		return fmt.Errorf("claim %s: %w: that of shard %s is %v behind that of shard %s, and a move can wait for %v: set "+
			"the clocks; if they agree, an answer of a store was late, and the next request gets the key", p.Key, errApart,
			a.of.Name, wait.Round(time.Millisecond), b.of.Name, longest)
	}
	return s.sleep(ctx, wait)
}

// errApart is the error of a claim with fences that are further apart than a claim can wait for.
var errApart = errors.New("the clocks of the stores differ")

// maxWait is how far a clock may be behind.
const maxWait = time.Second

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
