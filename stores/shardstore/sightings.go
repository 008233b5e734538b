package shardstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe"
)

// AddSightings gives each shard those of its keys. During a move both shards of a key get them, and the one that has
// the record adds them. If a shard fails, the others add theirs nevertheless.
//
// It returns errors.ErrUnsupported if a shard of a key is not a SightingKeeper.
func (s *Store) AddSightings(ctx context.Context, all []retrysafe.KeySighting) error {
	of := map[*shard][]retrysafe.KeySighting{}
	for _, seen := range all {
		at := s.place(seen.Digest)
		of[at.first] = append(of[at.first], seen)
		if at.second != nil {
			of[at.second] = append(of[at.second], seen)
		}
	}
	var errs []error
	for shard, some := range of {
		keeper, ok := retrysafe.As[retrysafe.SightingKeeper](shard.Store)
		if !ok {
			errs = append(errs, shard.unsupported("retrysafe.SightingKeeper"))
			continue
		}
		errs = append(errs, shard.explain(keeper.AddSightings(ctx, some)))
	}
	return errors.Join(errs...)
}
