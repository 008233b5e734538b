package shardstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// claimIn claims in one store. A lease that the owner has given back without an answer does not count: it is given back
// again, and the next one has a larger fence, which a late call does not name. A key that was taken over is never
// claimed twice by one owner then, because a take-over that is given back keeps its fence.
func (s *Store) claimIn(ctx context.Context, of *shard, p retrysafe.ClaimParams) (part, error) {
	doubted := false
	for {
		c, err := of.claim(ctx, p)
		doubted = doubted || c.Doubted
		c.Doubted = doubted
		got := part{of: of, Claim: c, at: time.Now()}
		if err != nil || c.Verdict != retrysafe.Acquired {
			return got, err
		}
		before := s.leases.doubted(c.Lease)
		if before == nil {
			return got, nil
		}
		got.tookOver = before.tookOver
		if err := s.giveBack(ctx, got); err != nil || before.tookOver {
			err = of.explain(fmt.Errorf("claim %s: %w", p.Key, cmp.Or(err, errGivenBack)))
			return part{Claim: retrysafe.Claim{Doubted: doubted}}, err
		}
	}
}

// errGivenBack is returned for a claim of an owner whose take-over was given back without an answer.
var errGivenBack = errors.New("this attempt has given its claim back, and got no answer to that: send the request " +
	"again")

// look returns what a claim of the key would be told if it did not take it: Done, InFlight or Abandoned; Acquired if
// the key is free or released.
func (s *shard) look(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	inspect := s.inspect
	if p.StateOnly {
		inspect = s.states
	}
	found, err := inspect(ctx, p.Key.Digest())
	if err != nil || len(found) == 0 {
		return retrysafe.Claim{Verdict: retrysafe.Acquired}, err
	}
	r := found[0]
	r.Sightings = nil // as Claim shows it
	switch {
	case r.State.Ended() && r.KeyLeft > 0:
		if r.Steps = nil; r.ReplayLeft == 0 { // as Claim shows it
			r.Result.Meta, r.Result.Body = nil, nil
		}
		return retrysafe.Claim{Verdict: retrysafe.Done, Record: r}, nil
	case r.State == retrysafe.Pending && r.LeaseLeft > 0:
		return retrysafe.Claim{Verdict: retrysafe.InFlight, Record: r}, nil
	case r.State == retrysafe.Pending:
		return retrysafe.Claim{Verdict: retrysafe.Abandoned, Record: r}, nil
	}
	return retrysafe.Claim{Verdict: retrysafe.Acquired}, nil
}

// briefly is a retention that ends with the attempt.
func briefly() retrysafe.Retention { return retrysafe.Retention{Replay: 1, Key: 1, Audit: 1} }

// wipe deletes an unfinished record, if nobody has taken it meanwhile: the owner claims it, with a retention that ends
// at once.
func (s *Store) wipe(ctx context.Context, of *shard, r retrysafe.Record, o retrysafe.Owner) error {
	p := retrysafe.ClaimParams{
		Key: r.Key, Fingerprint: r.Fingerprint, Owner: o, Lease: time.Minute, Keep: briefly(), TakeOver: true,
		StateOnly: true,
	}
	got, err := s.claimIn(ctx, of, p)
	if err != nil || got.Verdict != retrysafe.Acquired {
		return err
	}
	return s.giveBack(ctx, got)
}

// giveBack returns the key to the state before the claim. If that fails, the lease runs out, or the call arrives late:
// then the lease counts for nothing, also if the owner claims it again.
func (s *Store) giveBack(ctx context.Context, c part) (err error) {
	const patience = time.Second // whether or not the caller still waits
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	if c.tookOver {
		err = c.of.Store.Extend(ctx, c.Lease, 0)
	} else {
		err = c.of.Store.Release(ctx, c.Lease)
	}
	if err == nil || errors.Is(err, retrysafe.ErrLeaseLost) {
		return nil
	}
	s.leases.doubt(c.Lease, c.tookOver)
	return c.of.explain(err)
}

// renew makes the lease run afresh.
func (c *part) renew(ctx context.Context, p retrysafe.ClaimParams) error {
	return c.of.explain(c.of.Store.Extend(ctx, c.Lease, p.Lease))
}

// add saves the steps that this store's record lacks.
func (c *part) add(ctx context.Context, steps []retrysafe.StepResult) error {
	for _, step := range lacking(c.Record.Steps, steps) {
		if err := c.of.Store.Checkpoint(ctx, c.Lease, step); err != nil {
			return c.of.explain(err)
		}
	}
	return nil
}

// lacking returns those of the steps that are not known by name.
func lacking(known, steps []retrysafe.StepResult) (lacking []retrysafe.StepResult) {
	for _, step := range steps {
		if !slices.ContainsFunc(known, func(k retrysafe.StepResult) bool { return k.Name == step.Name }) {
			lacking = append(lacking, step)
		}
	}
	return lacking
}
