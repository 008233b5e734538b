package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Inspect returns the records of a key that may be read, the newest first.
func (s *Store) Inspect(ctx context.Context, d retrysafe.Digest) (found []retrysafe.Record, err error) {
	err = s.read(ctx, func(c *conn) error {
		found, err = s.inspect(ctx, c, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", d, explain(err))
	}
	return found, nil
}

// inspect reads records and steps as they were at one time.
func (s *Store) inspect(ctx context.Context, c *conn, d retrysafe.Digest) ([]retrysafe.Record, error) {
	for _, text := range []string{
		"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT",
	} {
		if _, err := c.ExecContext(ctx, text); err != nil {
			return nil, err
		}
	}
	records, err := s.show(ctx, c, s.sql.inspect, rows{{d[:]}})
	if err != nil {
		return nil, err
	}
	err = s.query(ctx, c, s.sql.inspectSteps, rows{{d[:]}}, func(row *sql.Rows) error {
		var firstFence int64
		var step retrysafe.StepResult
		if err := row.Scan(&firstFence, &step.Name, &step.Data); err != nil {
			return err
		}
		for i := range records {
			if r := &records[i]; r.FirstFence == firstFence && (!r.State.Ended() || r.AuditLeft > 0) {
				r.Steps = append(r.Steps, step)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.readSightings(ctx, c, d, records); err != nil {
		return nil, err
	}
	_, err = c.ExecContext(ctx, "COMMIT")
	return records, err
}

// List returns p.Limit records, the newest first, without Meta, Body and steps. States and scopes have indexes, which sweeps
// keep: see Find.
func (s *Store) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	return s.Find(ctx, retrysafe.FindParams{ListParams: p})
}

// show returns the records that a statement selects, as people see them.
func (s *Store) show(ctx context.Context, q runner, st *statement, values rows) (found []retrysafe.Record, err error) {
	err = s.query(ctx, q, st, values, func(row *sql.Rows) error {
		var r record
		if err := r.scan(row, &r.Meta, &r.Body, &r.scope, &r.id); err != nil {
			return err
		}
		found = append(found, r.view(retrysafe.Key{Scope: string(r.scope), ID: string(r.id)}))
		return nil
	})
	return found, err
}

// Stats counts the records, which reads the whole table of claims. Bytes is what the tables
// take on disk, as the server has last estimated it.
func (s *Store) Stats(ctx context.Context) (v retrysafe.Stats, err error) {
	err = s.read(ctx, func(c *conn) error {
		row := c.QueryRowContext(ctx, s.sql.stats.literal(nil))
		if err := row.Scan(&v.Pending, &v.Abandoned, &v.Released, &v.Succeeded, &v.Failed); err != nil {
			return err
		}
		return c.QueryRowContext(ctx, s.sql.bytes.literal(nil)).Scan(&v.Bytes)
	})
	if err != nil {
		return retrysafe.Stats{}, fmt.Errorf("stats: %w", explain(err))
	}
	return v, nil
}

// PendingAges returns ages of pending records since their first claim: one that 95 and one that 99 of 100 records do
// not exceed, and that of the oldest. Without pending records they are 0; expired ones do not count.
//
// Like Stats, it reads the whole table of claims once, and no answers. The server sorts the ages of the pending
// records.
func (s *Store) PendingAges(ctx context.Context) (p95, p99, oldest time.Duration, err error) {
	var ages [3]int64
	err = s.read(ctx, func(c *conn) error {
		return c.QueryRowContext(ctx, s.sql.pendingAges.literal(nil)).Scan(&ages[0], &ages[1], &ages[2])
	})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("ages of pending records: %w", explain(err))
	}
	return storekit.Duration(ages[0]), storekit.Duration(ages[1]), storekit.Duration(ages[2]), nil
}
