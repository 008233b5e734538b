package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Claim takes the key for one attempt, or reports who has it. A claim of a key that has ended, or is in flight, writes
// nothing.
//
// It returns an error that wraps [retrysafe.ErrStoreFull] if the server has reached maxmemory. Keys that are there are
// answered nevertheless.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if err := ctx.Err(); err != nil {
		return retrysafe.Claim{}, err
	}
	c, err := s.claim(ctx, &p)
	if err != nil { // that of a full server says nothing about the first copy, which may arrive when there is room
		return retrysafe.Claim{Doubted: c.Doubted}, fmt.Errorf("claim %s: %w", p.Key, explain(err))
	}
	return c, nil
}

// claimCall returns the call that claims a key.
func (s *Store) claimCall(p *retrysafe.ClaimParams, lease int64, keep storekit.Keep) (*call, error) {
	tail, err := newTail(p)
	if err != nil {
		return nil, err
	}
	takeOver := "0"
	if p.TakeOver {
		takeOver = "1"
	}
	d := p.Key.Digest()
	args := []string{string(p.Owner[:]), micros(lease), micros(keep.Key), packKeep(keep), tail, takeOver, s.inScript}
	if s.inScript != "" {
		args = append(args, strconv.Itoa(class(lease, keep)), string(d[:]), byArrival)
		args = append(args, kinds(p.Key.ID, p.Tags)...)
	}
	return &call{what: s.scripts.claim, key: s.key(d), args: args}, nil
}

func (s *Store) claim(ctx context.Context, p *retrysafe.ClaimParams) (c retrysafe.Claim, err error) {
	lease, keep := storekit.Micros(p.Lease), storekit.NewKeep(p.Keep)
	sent, err := s.claimCall(p, lease, keep)
	if err != nil {
		return c, err
	}
	defer func() {
		c.Doubted = sent.doubted
		if err == nil {
			s.addToIndex(&c, class(lease, keep))
		}
	}()
	answer, err := s.send(ctx, sent)
	if err == nil && isZero(answer) { // the record that is there moves to the older ones
		sent.what = s.scripts.claim.withOlder()
		answer, err = s.send(ctx, sent)
	}
	if err != nil {
		return c, err
	}
	if answer.IsInt64() {
		now, err := answer.AsInt64()
		return newClaim(p, now, now, lease, keep), err
	}
	parts, err := answer.ToArray()
	if err != nil {
		return c, err
	}
	return readClaim(p, parts, lease, keep)
}

func isZero(answer rueidis.RedisMessage) bool {
	if !answer.IsInt64() {
		return false
	}
	n, err := answer.AsInt64()
	return err == nil && n == 0
}

// readClaim reads the answer of claim.lua.
func readClaim(p *retrysafe.ClaimParams, parts []rueidis.RedisMessage, lease int64, keep storekit.Keep) (
	c retrysafe.Claim, err error,
) {
	if len(parts) < 2 {
		return c, errFormat
	}
	now, err := parts[0].AsInt64()
	if err != nil {
		return c, err
	}
	second, err := parts[1].AsInt64()
	if err != nil {
		return c, err
	}
	if len(parts) == 2 {
		return newClaim(p, now, second, lease, keep), nil
	}
	b, err := parts[2].AsBytes()
	if err != nil {
		return c, err
	}
	r, err := decode(b)
	if err != nil {
		return c, err
	}
	c.Verdict, c.Record = retrysafe.Verdict(second), r.ForClaim(r.key, now, r.steps)
	if c.Verdict == retrysafe.Acquired {
		c.Lease = retrysafe.Lease{Key: p.Key, Owner: p.Owner, Fence: r.Fence}
	}
	return c, nil
}

// newClaim is the claim of a new record.
func newClaim(p *retrysafe.ClaimParams, now storekit.Instant, fence, lease int64, keep storekit.Keep) retrysafe.Claim {
	r := storekit.Record{
		State: retrysafe.Pending, Owner: p.Owner, Fence: fence, FirstFence: fence, Attempt: 1, ClaimedAt: now,
		EndsAt: min(now+min(lease, lastInstant), lastInstant), Keep: keep, Fingerprint: p.Fingerprint,
		Tags: p.Tags,
	}
	return retrysafe.Claim{
		Verdict: retrysafe.Acquired,
		Lease:   retrysafe.Lease{Key: p.Key, Owner: p.Owner, Fence: fence},
		Record:  r.View(p.Key, now),
	}
}
