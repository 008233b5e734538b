package memstore

import (
	"context"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Inspect returns the records that are kept of a key, the newest first.
func (s *Store) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := s.inspect(d)
	for i := range found {
		storekit.Unshare(&found[i])
	}
	return found, nil
}

// inspect returns records that share their bytes with the store.
func (s *Store) inspect(d retrysafe.Digest) []retrysafe.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock()
	found := []retrysafe.Record{}
	for r := s.records[d]; r != nil; r = r.older {
		if r.readable(now) {
			found = append(found, r.forPeople(now))
		}
	}
	return found
}

// List returns up to p.Limit records, the newest first, without Meta, Body and steps. It looks at every record that
// arrived since p.Before until it has found enough, and claims wait meanwhile.
func (s *Store) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	return s.Find(ctx, retrysafe.FindParams{ListParams: p})
}

// Find returns the records that p selects. In memory it needs no index: like List, it looks at every record that
// arrived since p.Before until it has found enough.
func (s *Store) Find(ctx context.Context, p retrysafe.FindParams) ([]retrysafe.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.ListParams = storekit.ListParams(p.ListParams)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock()
	found := []retrysafe.Record{}
	for r := s.arrived.next; r != &s.arrived && len(found) < p.Limit; r = r.next {
		if v := r.summary(now); r.readable(now) && p.Selects(v) {
			found = append(found, v)
		}
	}
	return found, nil
}

// Stats counts the records. It looks at each of them, and claims wait meanwhile.
func (s *Store) Stats(ctx context.Context) (retrysafe.Stats, error) {
	if err := ctx.Err(); err != nil {
		return retrysafe.Stats{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock()
	stats := retrysafe.Stats{Bytes: s.bytes}
	for _, r := range s.due {
		storekit.Count(&stats, r.state, !r.leaseRuns(now))
	}
	return stats, nil
}
