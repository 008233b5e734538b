package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// AddSightings adds counts to records, in one statement. Those of records that do not exist are left out. It waits for
// no claim: it reads the records without locking them.
func (s *Store) AddSightings(ctx context.Context, all []retrysafe.KeySighting) error {
	if len(all) == 0 {
		return ctx.Err()
	}
	p := new(pgx.Batch)
	p.Queue(s.sql.plannerSettings, maxLockWait)
	p.Queue(s.sql.addSightings.many, sightingColumns(all)...)
	err := s.readCommitted(ctx, func(tx pgx.Tx) error { return tx.SendBatch(ctx, p).Close() })
	if err != nil {
		return fmt.Errorf("add sightings: %w", explain(err))
	}
	return nil
}

// seenRecord is what has one row of sightings.
type seenRecord struct {
	digest     retrysafe.Digest
	firstFence int64
	kind       retrysafe.SightingKind
}

// sightingColumns are the arguments of add_sightings.sql, which takes each of its rows once.
func sightingColumns(all []retrysafe.KeySighting) []any {
	sums := make(map[seenRecord]retrysafe.Sighting, len(all))
	for _, one := range all {
		id := seenRecord{one.Digest, one.FirstFence, one.Kind}
		if known, twice := sums[id]; twice {
			one.Sighting = known.Merge(one.Sighting)
		}
		sums[id] = one.Sighting
	}
	var rows [][]any
	for id, seen := range sums {
		k, firstFence, kind := uuid(id.digest), number(id.firstFence), number(id.kind)
		count, first, last, code := number(seen.Count), micros(seen.First), micros(seen.Last), number(seen.Code)
		rows = append(rows, []any{&k, &firstFence, &kind, &count, &first, &last, &code})
	}
	return columnsOfRows(rows)
}

// readSightings adds to the records of a key how often they were seen.
func (s *Store) readSightings(ctx context.Context, d retrysafe.Digest, records []retrysafe.Record) error {
	rows, err := s.pool.Query(ctx, s.sql.sightings, (*uuid)(&d))
	if err != nil {
		return err
	}
	var firstFence, first, last int64
	var seen retrysafe.Sighting
	_, err = pgx.ForEachRow(rows, []any{&firstFence, &seen.Kind, &seen.Count, &first, &last, &seen.Code}, func() error {
		seen.First, seen.Last = storekit.Duration(first), storekit.Duration(last)
		for i := range records {
			if records[i].FirstFence == firstFence {
				records[i].Sightings = append(records[i].Sightings, seen)
			}
		}
		return nil
	})
	return err
}
