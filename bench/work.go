package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/peers"
)

// pairsOf returns our side of most races: a pair on a fresh key of s for each piece of work.
func pairsOf(s retrysafe.Store) peers.Peer {
	result := peers.Result()
	return peers.Each(func(ctx context.Context) error { return storePair(ctx, s, result) })
}

// storePair claims a fresh key in s and completes it.
func storePair(ctx context.Context, s retrysafe.Store, r retrysafe.Result) error {
	return makePair(ctx, s, freshParams(), r, retrysafe.Retention{})
}

// acquire claims a fresh key.
func acquire(ctx context.Context, s retrysafe.Store, p retrysafe.ClaimParams) (retrysafe.Lease, error) {
	c, err := s.Claim(ctx, p)
	if err == nil && c.Verdict != retrysafe.Acquired {
		err = fmt.Errorf("claim of a fresh key: %v", c.Verdict)
	}
	return c.Lease, err
}

// freshParams returns the parameters that claim a fresh key.
func freshParams() retrysafe.ClaimParams {
	owner := retrysafe.NewOwner()
	return claimParams(hex.EncodeToString(owner[:]), owner)
}

func claimParams(id string, owner retrysafe.Owner) retrysafe.ClaimParams {
	return retrysafe.ClaimParams{
		Key:         retrysafe.Key{Scope: peers.Scope, ID: id},
		Fingerprint: peers.Fingerprint,
		Owner:       owner,
		Lease:       peers.Lease,
	}
}

// fillers is the number of goroutines that fill a store, large enough to share syncs.
const fillers = 256

// fillStore completes the keys from first up to but not including end.
func fillStore(ctx context.Context, s retrysafe.Store, first, end int64) error {
	result := peers.Result()
	return forEach(ctx, fillers, first, end, func(ctx context.Context, i int64) error {
		return makePair(ctx, s, fillParams(i), result, retrysafe.Retention{})
	})
}

// makePair claims and completes the key of p, which is kept for so long.
func makePair(
	ctx context.Context, s retrysafe.Store, p retrysafe.ClaimParams, r retrysafe.Result, keep retrysafe.Retention,
) error {
	lease, err := acquire(ctx, s, p)
	if err != nil {
		return err
	}
	return s.Complete(ctx, lease, r, keep)
}

// forEach calls f for each number from first up to but not including end, by so many callers.
func forEach(ctx context.Context, callers int, first, end int64, f func(ctx context.Context, i int64) error) error {
	var next atomic.Int64
	next.Store(first)
	all, ctx := errgroup.WithContext(ctx)
	for range callers {
		all.Go(func() error {
			for i := next.Add(1) - 1; i < end; i = next.Add(1) - 1 {
				if err := f(ctx, i); err != nil {
					return fmt.Errorf("number %d: %w", i, err)
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// fillParams returns the parameters that claim the i-th key.
func fillParams(i int64) retrysafe.ClaimParams {
	return claimParams(fmt.Sprintf("order-%032d", i), retrysafe.NewOwner())
}

// replay claims one of the first n keys that fillStore has completed, at random, and expects its result.
func replay(ctx context.Context, s retrysafe.Store, n int64) error {
	return replayOf(ctx, s, rand.Int64N(n))
}

// replayOf is replay for the i-th key.
func replayOf(ctx context.Context, s retrysafe.Store, i int64) error {
	c, err := s.Claim(ctx, fillParams(i))
	if err == nil && c.Verdict != retrysafe.Done {
		err = fmt.Errorf("claim of a completed key: %v", c.Verdict)
	}
	return err
}
