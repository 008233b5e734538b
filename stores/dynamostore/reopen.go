package dynamostore

import (
	"context"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// Reopen makes the operation of a key that has ended under this fence run again: it drops the answer, and the steps
// except the trail, to which it adds the step. It is one Query and one conditional UpdateItem; the items that held the
// answer are deleted afterwards, or by DynamoDB's time to live.
//
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the claim with that fence has not ended.
func (s *Store) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for b := (backoff{}); ; {
		done, err := s.reopen(ctx, d, fence, savedStep{StepResult: step})
		if err == nil && !done {
			err = b.wait(ctx)
		}
		if err != nil || done {
			return call(ctx, "reopen", d, err)
		}
	}
}

func (s *Store) reopen(ctx context.Context, d retrysafe.Digest, fence int64, step savedStep) (done bool, err error) {
	k, err := s.kept(ctx, d)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(k.readable, func(r *record) bool { return r.part() == partRecord && !r.Expired(k.now) })
	switch {
	case i < 0:
		return false, retrysafe.ErrKeyUnknown
	case k.readable[i].hasStep(step.Name):
		return true, nil
	case !k.readable[i].State.Ended() || k.readable[i].Fence != fence:
		return false, retrysafe.ErrNotEnded
	}
	r := k.readable[i]
	steps := append(r.trail(), step)
	until := k.now + r.Keep.Key
	_, ok, err := s.write(ctx, itemKey(r.digest(), partRecord), write{
		update: "SET st = :state, en = :now, ex = :end, expires_at = :ttl, kt = :seconds, sp = :steps, sn = :names, " +
			"ro = :room, ve = ve + :one REMOVE me, bo, pa, co, om, tk, au, ov",
		condition: sameVersion + " AND ex > :now",
		values: r.seen(item{
			":state": number(int64(retrysafe.Released)), ":now": number(k.now), ":end": number(until), ":ttl": ttl(until),
			":seconds": number(seconds(r.Keep.Key) + ttlMargin), ":steps": encodeSteps(steps), ":names": stepNames(steps),
			":room": bytesOf(room[:]), ":one": number(1),
		}),
	})
	if err != nil || !ok {
		return false, err
	}
	s.dropOld(ctx, r, k.copies)
	return true, s.keep(ctx, r.digest(), steps, until)
}

// dropOld deletes what a reopened record names no more, and copies of it that still do. What it cannot delete is
// deleted by DynamoDB's time to live.
func (s *Store) dropOld(ctx context.Context, r *record, copies []*record) {
	for _, c := range copies {
		if _, err := s.delete(ctx, itemKey(c.digest(), c.part()), "", nil); err != nil {
			return
		}
	}
	_ = s.remove(ctx, r.digest(), r.content)
	for _, step := range r.steps {
		if !isTrail(step) {
			_ = s.remove(ctx, r.digest(), step.parts)
		}
	}
}
