package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Claim takes the key for one attempt, or reports who has it. A claim of a new key costs one round trip, one of a known
// key that is taken another one.
//
// It returns [retrysafe.ErrStoreFull] if the bucket, the account or the server has no room for a new key, and an error
// that wraps the last one of the servers if a majority of them does not answer within [Options.Timeout].
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (c retrysafe.Claim, err error) {
	d := p.Key.Digest()
	var first *entry
	if s.guess.New() {
		first = &entry{}
	}
	c, err = s.claim(ctx, d, first, &p)
	if err != nil {
		return retrysafe.Claim{}, fmt.Errorf("claim %s: %w", d, err)
	}
	s.guess.Learn(c.Verdict == retrysafe.Acquired && c.Record.Attempt == 1)
	return c, nil
}

func (s *Store) claim(ctx context.Context, d retrysafe.Digest, first *entry, p *retrysafe.ClaimParams,
) (c retrysafe.Claim, err error) {
	isNew := true
	err = s.update(ctx, d, first, func(e *entry, now storekit.Instant) (*entry, bool, error) {
		verdict := retrysafe.Acquired
		if e.lost && e.live(now) {
			return nil, false, errLost
		}
		if isNew = !e.live(now); !isNew {
			verdict = e.Verdict(p, now)
		}
		if verdict != retrysafe.Acquired {
			c = retrysafe.Claim{Verdict: verdict, Record: e.forClaim(now)}
			if verdict == retrysafe.Abandoned && s.replicated {
				// A leader that was cut off may still answer reads for seconds, and the record may have been extended
				// or taken over since. A write that changes nothing succeeds only if it has not.
				return e.next(now), false, nil
			}
			return nil, false, nil
		}
		if isNew {
			if err := s.checkRoom(ctx); err != nil {
				return nil, false, err
			}
		}
		next := e.next(now)
		next.acquire(p, now, s.clock.current(ctx).high(time.Now()), s.limit()/2)
		shown := *next
		shown.settle(now)
		c = retrysafe.Claim{
			Verdict: verdict,
			Lease:   retrysafe.Lease{Key: p.Key, Owner: p.Owner, Fence: next.Fence},
			Record:  shown.forClaim(now),
		}
		return next, false, nil
	})
	if !isNew && errors.Is(err, retrysafe.ErrStoreFull) { // which would say that this owner has no record
		err = errors.New(err.Error())
	}
	return c, err
}

// acquire gives the key to p.Owner under a new fence, or under the same fence if p.Owner has it already. room is for
// what is kept of earlier records.
func (e *entry) acquire(p *retrysafe.ClaimParams, now, clock storekit.Instant, room int) {
	if !e.live(now) {
		e.free(now, room)
		e.key = p.Key
		e.record = record{
			Record:     storekit.Record{Fence: e.Fence, Fingerprint: p.Fingerprint, Tags: p.Tags},
			claimedNow: true,
		}
	}
	if e.State != retrysafe.Pending || e.Owner != p.Owner {
		e.State, e.Owner = retrysafe.Pending, p.Owner
		e.Fence = max(e.Fence+1, clock)
		e.Attempt++
		if e.Attempt == 1 {
			e.FirstFence = e.Fence
		}
	}
	e.Keep = storekit.NewKeep(p.Keep)
	e.setLease(p.Lease)
}
