package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// sighting is a retrysafe.Sighting with instants of the store's clock.
type sighting struct {
	kind        retrysafe.SightingKind
	count       int64
	first, last time.Duration
	code        int
}

// sightingSize is what a sighting takes, in bytes.
const sightingSize = 48

// AddSightings adds counts to records. Those of records that do not exist are left out.
func (s *Store) AddSightings(ctx context.Context, all []retrysafe.KeySighting) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock()
	for _, seen := range all {
		r := s.records[seen.Digest]
		for r != nil && r.firstFence != seen.FirstFence {
			r = r.older
		}
		if r != nil && r.readable(now) {
			r.addSighting(seen.Sighting, now)
			s.changed(r)
		}
	}
	return nil
}

func (r *record) addSighting(added retrysafe.Sighting, now time.Duration) {
	byKind := func(s sighting, kind retrysafe.SightingKind) int { return cmp.Compare(s.kind, kind) }
	i, isKnown := slices.BinarySearchFunc(r.sightings, added.Kind, byKind)
	if isKnown {
		added = r.sightings[i].view(now).Merge(added)
	} else {
		r.sightings = slices.Insert(r.sightings, i, sighting{})
	}
	r.sightings[i] = sighting{
		kind: added.Kind, count: added.Count, first: now - added.First, last: now - added.Last, code: added.Code,
	}
}

func (s sighting) view(now time.Duration) retrysafe.Sighting {
	return retrysafe.Sighting{Kind: s.kind, Count: s.count, First: now - s.first, Last: now - s.last, Code: s.code}
}
