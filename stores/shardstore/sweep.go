package shardstore

import (
	"context"
	"errors"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// Sweep sweeps the shards that are Sweepers one after the other, until limit records are deleted or their bodies
// dropped. Each call begins with another shard, so that none waits for ever. A shard that fails does not keep the
// others from being swept; its error is returned. During a move the old and the new shards are swept up to limit
// each, because most records are in both, and the larger number is returned.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	first := s.sweeps.Add(1)
	decide, other := s.decide()
	n, err := sweep(ctx, decide, first, limit)
	m, otherErr := sweep(ctx, other, first, limit)
	return max(n, m), errors.Join(err, otherErr)
}

func sweep(ctx context.Context, shards []*shard, first uint64, limit int) (total int, err error) {
	var errs []error
	for i := range shards {
		of := shards[(first+uint64(i))%uint64(len(shards))]
		sweeper, ok := retrysafe.As[retrysafe.Sweeper](of.Store)
		if !ok || total >= limit {
			continue
		}
		n, err := sweeper.Sweep(ctx, limit-total)
		total += n
		errs = append(errs, of.explain(err))
	}
	return total, errors.Join(errs...)
}

// decide returns the shards that decide about keys, and the others.
func (s *Store) decide() (decide, other []*shard) {
	decide = s.old
	if s.stage == NewDecides {
		decide = s.next
	}
	for _, of := range s.all {
		if !slices.Contains(decide, of) {
			other = append(other, of)
		}
	}
	return decide, other
}

// Watch watches the key on its shard, during a move on the one that decides. It returns errors.ErrUnsupported if that
// shard is not a Watcher; then the waiter polls.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (changed <-chan struct{}, stop func(), err error) {
	of := s.place(k.Digest()).first
	watcher, ok := retrysafe.As[retrysafe.Watcher](of.Store)
	if !ok {
		return nil, nil, of.unsupported("retrysafe.Watcher")
	}
	changed, stop, err = watcher.Watch(ctx, k)
	return changed, stop, of.explain(err)
}

// Risks returns the risks of the shards that report them, each with the shard's name before its setting.
func (s *Store) Risks(ctx context.Context) ([]retrysafe.Risk, error) {
	var all []retrysafe.Risk
	for _, of := range s.all {
		reporter, ok := retrysafe.As[retrysafe.RiskReporter](of.Store)
		if !ok {
			continue
		}
		risks, err := reporter.Risks(ctx)
		if err != nil {
			return nil, of.explain(err)
		}
		for _, r := range risks {
			r.Setting = "shard " + of.Name + ": " + r.Setting
			all = append(all, r)
		}
	}
	return all, nil
}
