package storecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/storeurl"
)

// opened is one side of a move.
type opened struct {
	name  string // old or new
	store retrysafe.Store
	reads retrysafe.Inspector
}

func openSide(ctx context.Context, name string, ref storeurl.Ref) (opened, func() error, error) {
	s, closeStore, err := ref.Open(ctx)
	if err != nil {
		return opened{}, nil, fmt.Errorf("the %s store: %w", name, err)
	}
	reads, ok := s.(retrysafe.Inspector)
	if !ok {
		return opened{}, nil, errors.Join(fmt.Errorf("the %s store %s cannot be listed: %w", name, ref.Name,
			errors.ErrUnsupported), closeStore())
	}
	return opened{name, s, reads}, closeStore, nil
}

// check finds out whether processes may go on to a stage.
func (c moveCmd) check(ctx context.Context, from, to storeurl.Ref) (checks []check, err error) {
	old, closeOld, err := openSide(ctx, "old", from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeOld()) }()
	next, closeNext, err := openSide(ctx, "new", to)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeNext()) }()

	if c.Stage < 3 {
		clocks, err := checkClocks(ctx, old, next)
		if err != nil {
			return nil, err
		}
		checks = append(checks, clocks)
	}
	var more check
	switch c.Stage {
	case 2:
		more, err = c.checkMirrored(ctx, old, next)
	case 3:
		more, err = checkCovered(ctx, old, next)
	default:
		return checks, nil
	}
	return append(checks, more), err
}

// skewAllowed is how far the clocks of the stores may differ: claims wait for the one that is behind.
const skewAllowed = 500 * time.Millisecond

// checkClocks claims a key of its own in both stores, whose fences are their clocks in microseconds.
func checkClocks(ctx context.Context, old, next opened) (check, error) {
	first, at, err := old.clock(ctx)
	if err != nil {
		return check{}, err
	}
	second, then, err := next.clock(ctx)
	if err != nil {
		return check{}, err
	}
	skew := time.Duration(second-first)*time.Microsecond - then.Sub(at)
	c := check{"both stores can be written to, and their clocks agree", skew.Abs() <= skewAllowed, ""}
	c.Detail = fmt.Sprintf("the new store's clock differs by %v; up to %v is allowed, and claims take that much longer",
		skew.Round(time.Millisecond), skewAllowed)
	return c, nil
}

// clock returns the store's clock in microseconds, and when it showed that.
func (o opened) clock(ctx context.Context) (micros int64, at time.Time, err error) {
	const brief = time.Second
	before := time.Now()
	c, err := o.store.Claim(ctx, retrysafe.ClaimParams{
		Key:   retrysafe.Key{Scope: "retrysafe store move", ID: retrysafe.NewOwner().String()},
		Owner: retrysafe.NewOwner(), Lease: brief, Keep: retrysafe.Retention{Replay: brief, Key: brief, Audit: brief},
	})
	after := time.Now()
	if err == nil {
		err = o.store.Release(ctx, c.Lease)
	}
	if err != nil {
		return 0, after, fmt.Errorf("the %s store cannot be written to: %w", o.name, err)
	}
	return c.Lease.Fence, before.Add(after.Sub(before) / 2), nil
}

// each calls visit for the records of a store, the newest first, until it returns false.
func (o opened) each(ctx context.Context, visit func(retrysafe.Record) (bool, error)) error {
	p := retrysafe.ListParams{Limit: 1000}
	for {
		page, err := o.reads.List(ctx, p)
		if err != nil {
			return fmt.Errorf("the %s store: %w", o.name, err)
		}
		for _, r := range page {
			p.Before = r.FirstFence
			if goOn, err := visit(r); err != nil || !goOn {
				return err
			}
		}
		if len(page) < p.Limit {
			return nil
		}
	}
}

// covers reports whether a record of the new store says all that the key's record in the old one does, so that the old
// one is not needed. An unfinished one must have each step that the old one has: an attempt that resumes would run it
// again. One that only people can read any more protects nothing.
func covers(next, old retrysafe.Record) bool {
	switch {
	case next.KeyLeft == 0 && next.LeaseLeft == 0:
		return false
	case next.State.Ended():
		return true
	case old.State.Ended(), old.State == retrysafe.Pending && next.State != retrysafe.Pending:
		return false
	}
	return !slices.ContainsFunc(old.Steps, func(step retrysafe.StepResult) bool {
		return !slices.ContainsFunc(next.Steps, func(s retrysafe.StepResult) bool { return s.Name == step.Name })
	})
}

// newest returns the record of a key that takes part in claims; without a state if there is none.
func (o opened) newest(ctx context.Context, d retrysafe.Digest) (retrysafe.Record, error) {
	found, err := o.reads.Inspect(ctx, d)
	if err != nil || len(found) == 0 {
		return retrysafe.Record{}, err
	}
	return found[0], nil
}

// betweenClaims is how long the claim of a key in the second store may take.
const betweenClaims = time.Second

// checkMirrored looks for keys that were claimed in the old store alone: a process at stage 0 does that.
func (c moveCmd) checkMirrored(ctx context.Context, old, next opened) (check, error) {
	var seen, missing int
	err := old.each(ctx, func(r retrysafe.Record) (bool, error) {
		switch {
		case r.Age < betweenClaims:
			return true, nil
		case r.Age > c.Quiet && r.LeaseLeft == 0:
			// Claims of the last minute come first. A long attempt may be further behind: its lease runs.
			return r.Age < 24*time.Hour, nil
		}
		seen++
		known, err := next.knows(ctx, r)
		if !known {
			missing++
		}
		return true, err
	})
	found := check{Name: "every key that is in use is in both stores", OK: missing == 0}
	found.Detail = fmt.Sprintf("%d keys were claimed within %v or are being worked on, of which the new store lacks %d",
		seen, c.Quiet, missing)
	if missing > 0 {
		found.Detail += ": a process is at stage 0, or was until a moment ago"
	}
	return found, err
}

func (o opened) knows(ctx context.Context, r retrysafe.Record) (bool, error) {
	found, err := o.reads.Inspect(ctx, r.Key.Digest())
	return len(found) > 0, err
}

// checkCovered looks for keys that the old store alone protects.
func checkCovered(ctx context.Context, old, next opened) (check, error) {
	var needed int
	var longest time.Duration
	err := old.each(ctx, func(r retrysafe.Record) (bool, error) {
		left := max(r.KeyLeft, r.LeaseLeft)
		if left == 0 {
			return true, nil
		}
		d := r.Key.Digest()
		theirs, err := next.newest(ctx, d)
		if err == nil && !r.State.Ended() && !theirs.State.Ended() {
			r, err = old.newest(ctx, d) // with its steps
		}
		if err == nil && !covers(theirs, r) {
			needed, longest = needed+1, max(longest, left)
		}
		return true, err
	})
	found := check{Name: "the old store is not needed any more", OK: needed == 0}
	found.Detail = "the new store has all of its keys"
	if needed > 0 {
		found.Detail = fmt.Sprintf("%d keys are in the old store alone: it is needed for another %s, until %s", needed,
			cli.Span(longest), time.Now().Add(longest).UTC().Format(time.RFC3339))
	}
	return found, err
}
