package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"

	"github.com/retrysafe/retrysafe"
)

// Inspect returns what is kept of a key, the newest record first.
func (s *Store) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	found := []retrysafe.Record{}
	err := s.snapshot(ctx, func(run runner, now instant) error {
		var rows []*record
		var keys []retrysafe.Key
		err := run.all("inspect", func(row []driver.Value) error {
			r, k, err := scanKept(row)
			rows, keys = append(rows, r), append(keys, k)
			return err
		}, d[:])
		if err != nil {
			return err
		}
		for i, r := range rows {
			if !r.Readable(now) {
				continue
			}
			v, err := r.forPeople(run, keys[i], now)
			if err != nil {
				return err
			}
			found = append(found, v)
		}
		return nil
	})
	return found, err
}

// forPeople is the record with all there is until Audit has passed.
func (r *record) forPeople(run runner, k retrysafe.Key, now instant) (retrysafe.Record, error) {
	v := r.View(k, now)
	if err := addSightings(run, &v, now); err != nil {
		return v, err
	}
	if r.State.Ended() && v.AuditLeft == 0 {
		v.Result.Meta, v.Result.Body = nil, nil
		return v, nil
	}
	var err error
	v.Steps, err = loadSteps(run, r)
	return v, err
}

// List returns up to p.Limit records, the newest first, without Meta, Body and steps. It reads what Find
// reads for a state, and otherwise every record that came since p.Before until it has found enough; claims do not wait
// for it.
func (s *Store) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	return s.Find(ctx, retrysafe.FindParams{ListParams: p})
}

// Stats counts the records. It reads all of them; claims do not wait for it.
func (s *Store) Stats(ctx context.Context) (retrysafe.Stats, error) {
	var stats retrysafe.Stats
	err := s.snapshot(ctx, func(run runner, now instant) error {
		return run.all("stats", func(row []driver.Value) error {
			c := scanner{row: row}
			state, n, over := retrysafe.State(c.int()), c.int(), c.int()
			switch state {
			case retrysafe.Pending:
				stats.Pending, stats.Abandoned = n, over
			case retrysafe.Released:
				stats.Released = n
			case retrysafe.Succeeded:
				stats.Succeeded = n
			case retrysafe.Failed:
				stats.Failed = n
			}
			return c.err
		}, now)
	})
	for _, name := range []string{s.path, s.path + "-wal"} {
		if info, statErr := os.Stat(name); statErr == nil {
			stats.Bytes += info.Size()
		}
	}
	return stats, err
}

// scanKept reads a record with its key.
func scanKept(row []driver.Value) (*record, retrysafe.Key, error) {
	r, err := scanRecord(row)
	c := scanner{row: row, i: len(row) - 2}
	k := retrysafe.Key{Scope: string(c.bytes()), ID: string(c.bytes())}
	if err == nil {
		err = c.err
	}
	return r, k, err
}

// snapshot calls f in a transaction that reads, on a connection from the caller's pool: what reads long must not keep
// claims from the readers. It ends with ctx.
func (s *Store) snapshot(ctx context.Context, f func(run runner, now instant) error) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return explain(s.path, err)
	}
	defer tx.Rollback() // there is nothing to commit
	if err := f(txRunner{tx, ctx}, s.clock.now()); err != nil {
		return explain(s.path, fmt.Errorf("read: %w", err))
	}
	return nil
}
