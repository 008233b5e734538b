package shardstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// Reopen reopens the key on its shard, during a move on both: until both are reopened, claims get the answer of the
// other one. A record that has ended in one of them alone is first ended in the other too, because its steps would be
// skipped. The fence is that of either record.
//
// It returns errors.ErrUnsupported if a shard of the key is not a Reopener, and [retrysafe.ErrNotEnded] if the other
// record's lease still runs: then repeat the call after that.
func (s *Store) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	at := s.place(d)
	if at.second == nil {
		return at.first.reopen(ctx, d, fence, step)
	}
	both := []*shard{at.second, at.first}
	var known []retrysafe.Record // that take part in claims
	var of []*shard              // of each of them
	for _, one := range both {
		found, err := one.inspect(ctx, d)
		if err != nil {
			return err
		}
		if len(found) > 0 && found[0].LeaseLeft+found[0].KeyLeft > 0 {
			known, of = append(known, found[0]), append(of, one)
		}
	}
	meant := func(r retrysafe.Record) bool { return hasStep(r, step) || r.State.Ended() && r.Fence == fence }
	switch i := slices.IndexFunc(known, meant); {
	case len(known) == 0:
		return fmt.Errorf("reopen %s: %w", d, retrysafe.ErrKeyUnknown)
	case i < 0:
		return fmt.Errorf("reopen %s: %w", d, retrysafe.ErrNotEnded)
	case len(known) == 2 && known[i].State.Ended() && !known[1-i].State.Ended() && !hasStep(known[1-i], step):
		if err := s.endLike(ctx, of[1-i], known[1-i], known[i]); err != nil {
			return fmt.Errorf("reopen %s: %w", d, err)
		}
	}
	for _, one := range of {
		if err := one.reopenEnded(ctx, d, step); err != nil {
			return err
		}
	}
	return nil
}

// reopenEnded reopens the key's record in the shard if it has ended.
func (s *shard) reopenEnded(ctx context.Context, d retrysafe.Digest, step retrysafe.StepResult) error {
	found, err := s.inspect(ctx, d)
	if err != nil || len(found) == 0 || !found[0].State.Ended() || hasStep(found[0], step) {
		return err
	}
	return s.reopen(ctx, d, found[0].Fence, step)
}

func (s *shard) reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	reopener, ok := s.Store.(retrysafe.Reopener)
	if !ok {
		return s.unsupported("retrysafe.Reopener")
	}
	return s.explain(reopener.Reopen(ctx, d, fence, step))
}

func hasStep(r retrysafe.Record, step retrysafe.StepResult) bool {
	return slices.ContainsFunc(r.Steps, func(s retrysafe.StepResult) bool { return s.Name == step.Name })
}
