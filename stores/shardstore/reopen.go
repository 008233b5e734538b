package shardstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// Reopen reopens the key on its shard, during a move on both: until both are reopened, claims get the answer of the
// other one. A record that has ended in one of them alone is first ended in the other too, because its steps would be
// skipped. The fence is that of either record. Of several calls at once during a move more than one may have its entry in
// the records and succeed; they free the key once.
//
// It returns errors.ErrUnsupported if a shard of the key is not a Reopener, and [retrysafe.ErrNotEnded] if the other
// record's lease still runs: then repeat the call after that.
func (s *Store) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	at := s.place(d)
	if at.second == nil {
		return at.first.reopen(ctx, d, fence, step)
	}
	for range rounds {
		both, err := s.copies(ctx, "reopen", d, at)
		if err != nil {
			return err
		}
		both = slices.DeleteFunc(both, func(c recordCopy) bool { return c.LeaseLeft+c.KeyLeft == 0 }) // for people only
		ended := func(c recordCopy) bool { return c.State.Ended() && !hasStep(c.Record, step) }
		meant := func(c recordCopy) bool { return ended(c) && c.Fence == fence }
		repeated := func(c recordCopy) bool { return hasStep(c.Record, step) }
		stopped := func(c recordCopy) bool { return repeated(c) && c.State == retrysafe.Released } // a call between both stores
		switch {
		case len(both) == 0:
			return fmt.Errorf("reopen %s: %w", d, retrysafe.ErrKeyUnknown)
		case !slices.ContainsFunc(both, meant) && !slices.ContainsFunc(both, repeated):
			return fmt.Errorf("reopen %s: %w", d, retrysafe.ErrNotEnded)
		case !slices.ContainsFunc(both, meant) && !slices.ContainsFunc(both, stopped):
			return nil // reopened and claimed since
		}
		lagging := slices.IndexFunc(both, func(c recordCopy) bool { return unfinished(c.Record) && !repeated(c) })
		if i := slices.IndexFunc(both, ended); lagging >= 0 && i >= 0 {
			if err := s.endLike(ctx, both[lagging].of, both[lagging].Record, both[i].Record); err != nil {
				return fmt.Errorf("reopen %s: %w", d, err)
			}
			continue
		}
		for _, c := range both {
			if !ended(c) {
				continue
			}
			// Another call may have been quicker in the first store. The last one decides.
			if err = c.of.reopen(ctx, d, c.Fence, step); err != nil && !errors.Is(err, retrysafe.ErrNotEnded) {
				return err
			}
		}
		return err
	}
	return changesAllTheTime("reopen "+d.String(), at)
}

// recordCopy is what one store of a move keeps of a key.
type recordCopy struct {
	of *shard
	retrysafe.Record
}

// copies returns the key's newest records: that of the old store and that of the new one, at whatever stage, so that
// all processes change them in the same order. If both have ended, the same attempt has ended in both: a later one
// would have claimed both, and so have changed the one that is looked at before and after the other.
func (s *Store) copies(ctx context.Context, verb string, d retrysafe.Digest, at placement) ([]recordCopy, error) {
	look := func(of *shard) (c []recordCopy, err error) {
		found, err := of.states(ctx, d)
		if len(found) > 0 {
			c = append(c, recordCopy{of, found[0]})
		}
		return c, err
	}
	old, next := at.first, at.second
	if s.stage == NewDecides {
		old, next = next, old
	}
	before, err := look(next)
	for range rounds {
		if err != nil {
			return nil, err
		}
		olds, err1 := look(old)
		after, err2 := look(next)
		if err = cmp.Or(err1, err2); err == nil && slices.EqualFunc(before, after, func(a, b recordCopy) bool {
			return a.Fence == b.Fence && a.State == b.State
		}) {
			return append(olds, after...), nil
		}
		before = after
	}
	return nil, changesAllTheTime(verb+" "+d.String(), at)
}

func (s *shard) reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	reopener, ok := retrysafe.As[retrysafe.Reopener](s.Store)
	if !ok {
		return s.unsupported("retrysafe.Reopener")
	}
	return s.explain(reopener.Reopen(ctx, d, fence, step))
}

func hasStep(r retrysafe.Record, step retrysafe.StepResult) bool {
	return slices.ContainsFunc(r.Steps, func(s retrysafe.StepResult) bool { return s.Name == step.Name })
}
