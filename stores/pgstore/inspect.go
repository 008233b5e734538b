package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Inspect returns the records of a key that may be read, the newest first.
func (s *Store) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	rows, err := s.pool.Query(ctx, s.sql.inspect, (*uuid)(&d))
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", d, explain(err))
	}
	found, err := readShown(rows)
	if err == nil && len(found) > 0 {
		err = s.readSightings(ctx, d, found)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", d, explain(err))
	}
	return found, nil
}

// readShown reads records as people see them.
func readShown(rows pgx.Rows) ([]retrysafe.Record, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (retrysafe.Record, error) {
		var r record
		if err := r.scan(row, &r.scope, &r.id); err != nil {
			return retrysafe.Record{}, err
		}
		return r.view(retrysafe.Key{Scope: string(r.scope), ID: string(r.id)}), nil
	})
}

// Stats counts the records, which reads the whole table of claims: a second for some millions. Bytes is what the schema
// takes on disk.
func (s *Store) Stats(ctx context.Context) (retrysafe.Stats, error) {
	var v retrysafe.Stats
	err := s.pool.QueryRow(ctx, s.sql.stats).Scan(&v.Pending, &v.Abandoned, &v.Released, &v.Succeeded, &v.Failed)
	if err == nil {
		err = s.pool.QueryRow(ctx, s.sql.bytes).Scan(&v.Bytes)
	}
	if err != nil {
		return retrysafe.Stats{}, fmt.Errorf("stats: %w", explain(err))
	}
	return v, nil
}

// PendingAges returns ages of pending records since their first claim: one that 95 and one that 99 of 100 records do
// not exceed, and that of the oldest. Without pending records they are 0; expired ones do not count.
//
// It reads the pending records, and those that are newer than the last sweeps: see Find. The server sorts the ages of the
// pending records, 8 bytes each, in work_mem or beyond that on disk.
func (s *Store) PendingAges(ctx context.Context) (p95, p99, oldest time.Duration, err error) {
	var ages [3]int64
	if err := s.pool.QueryRow(ctx, s.sql.pendingAges).Scan(&ages[0], &ages[1], &ages[2]); err != nil {
		return 0, 0, 0, fmt.Errorf("ages of pending records: %w", explain(err))
	}
	return storekit.Duration(ages[0]), storekit.Duration(ages[1]), storekit.Duration(ages[2]), nil
}
