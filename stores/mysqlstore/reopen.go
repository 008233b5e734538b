package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// Reopen makes the operation of a key that has ended under this fence run again: it drops the answer, and the steps
// except the trail, to which it adds the step.
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the claim with that fence has not ended.
func (s *Store) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	err := s.inTransaction(ctx, func(c *conn) error { return s.reopen(ctx, c, d, fence, step) })
	if err != nil {
		return fmt.Errorf("reopen %s: %w", d, explain(err))
	}
	s.watches.Wake(d)
	return nil
}

func (s *Store) reopen(ctx context.Context, c *conn, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	locked, err := s.lockRows(ctx, c, s.sql.lock, rows{{d[:]}})
	if err != nil {
		return err
	}
	r := locked[d]
	if r == nil || r.Expired(r.late) {
		return retrysafe.ErrKeyUnknown
	}
	saved, err := s.hasStep(ctx, c, r, step)
	switch {
	case err != nil || saved:
		return err
	case !r.State.Ended() || r.Fence != fence:
		return retrysafe.ErrNotEnded
	}
	var w writes
	r.saveSteps(&w, []retrysafe.StepResult{step})
	answer, steps := rows{{r.EndsAt, d[:]}}, rows{{d[:], r.FirstFence}}
	r.State, r.EndsAt, r.Code, r.Omitted = retrysafe.Released, r.late, 0, false
	r.sweepAt = (r.EndsAt + r.Keep.Key) / minute
	w.change(r)
	if err := s.dropContent(ctx, c, steps, answer); err != nil {
		return err
	}
	if err := s.writeAll(ctx, c, &w); err != nil {
		return err
	}
	return s.exec(ctx, c, s.sql.noteStates, rows{{d[:], r.FirstFence, unfinishedTag}})
}

// hasStep reports whether a step of that name is saved in the record.
func (s *Store) hasStep(ctx context.Context, c *conn, r *record, step retrysafe.StepResult) (saved bool, err error) {
	err = s.query(ctx, c, s.sql.inspectSteps, rows{{r.digest[:]}}, func(row *sql.Rows) error {
		var firstFence int64
		var name string
		var data sql.RawBytes
		err := row.Scan(&firstFence, &name, &data)
		saved = saved || firstFence == r.FirstFence && name == step.Name
		return err
	})
	return saved, err
}

// dropContent drops the steps of records, except the trail, and their answers. MariaDB may answer a DELETE that KILL
// QUERY interrupts as if there were nothing to delete. A second one finds it.
func (s *Store) dropContent(ctx context.Context, c *conn, steps, answers rows) error {
	for range 2 {
		if err := s.exec(ctx, c, s.sql.purgeSteps, steps); err != nil {
			return err
		}
		if err := s.exec(ctx, c, s.sql.dropResults, answers); err != nil {
			return err
		}
	}
	return nil
}
