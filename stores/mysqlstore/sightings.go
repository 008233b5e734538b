package mysqlstore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// sightingsTries is how often a batch is tried that the server has ended for a deadlock.
const sightingsTries = 5

// AddSightings adds counts to records, all or none. Those of records that do not exist are left out. It locks no
// record: claims do not wait for it, and what it adds to one that a sweep deletes meanwhile goes with a later sweep.
func (s *Store) AddSightings(ctx context.Context, all []retrysafe.KeySighting) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sums := sum(all)
	for tries := 1; ; tries++ {
		err := s.inTransaction(ctx, func(c *conn) error { return s.addSightings(ctx, c, sums) })
		switch {
		case err == nil:
			return nil
		case tries == sightingsTries || s.remedy(err) != nil:
			return fmt.Errorf("add sightings: %w", explain(err))
		}
	}
}

// recordID is a record of a key.
type recordID struct {
	retrysafe.Digest
	firstFence int64
}

// sum returns one sighting of each kind of a record, in the order in which their rows are locked.
func sum(all []retrysafe.KeySighting) []retrysafe.KeySighting {
	sums := slices.Clone(all)
	slices.SortFunc(sums, func(a, b retrysafe.KeySighting) int {
		return cmp.Or(bytes.Compare(a.Digest[:], b.Digest[:]), cmp.Compare(a.FirstFence, b.FirstFence),
			cmp.Compare(a.Kind, b.Kind))
	})
	n := 0
	for i, seen := range sums {
		last := &sums[max(n-1, 0)]
		if i > 0 && last.Digest == seen.Digest && last.FirstFence == seen.FirstFence && last.Kind == seen.Kind {
			last.Sighting = last.Merge(seen.Sighting)
			continue
		}
		sums[n] = seen
		n++
	}
	return sums[:n]
}

func (s *Store) addSightings(ctx context.Context, c *conn, sums []retrysafe.KeySighting) error {
	var keys, added rows
	for _, seen := range sums {
		keys = append(keys, []any{seen.Digest[:]})
	}
	if len(keys) == 0 {
		return nil
	}
	existing := map[recordID]bool{}
	err := s.query(ctx, c, s.sql.existing, keys, func(row *sql.Rows) error {
		var k sql.RawBytes
		var id recordID
		err := row.Scan(&k, &id.firstFence)
		copy(id.Digest[:], k)
		existing[id] = true
		return err
	})
	if err != nil {
		return err
	}
	for _, seen := range sums {
		if existing[recordID{seen.Digest, seen.FirstFence}] {
			added = append(added, []any{
				seen.Digest[:], seen.FirstFence, int(seen.Kind), seen.Count,
				storekit.Micros(seen.First), storekit.Micros(seen.Last), seen.Code,
			})
		}
	}
	if len(added) == 0 {
		return nil
	}
	return s.exec(ctx, c, s.sql.addSightings, added)
}

// readSightings adds to the records of a key how often they were seen.
func (s *Store) readSightings(ctx context.Context, c *conn, d retrysafe.Digest, records []retrysafe.Record) error {
	return s.query(ctx, c, s.sql.inspectSightings, rows{{d[:]}}, func(row *sql.Rows) error {
		var firstFence, first, last int64
		var seen retrysafe.Sighting
		err := row.Scan(&firstFence, (*uint8)(&seen.Kind), &seen.Count, &first, &last, &seen.Code)
		seen.First, seen.Last = storekit.Duration(first), storekit.Duration(last)
		for i := range records {
			if r := &records[i]; r.FirstFence == firstFence {
				r.Sightings = append(r.Sightings, seen)
			}
		}
		return err
	})
}
