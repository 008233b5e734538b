package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// Purge drops what was answered of a key, and its steps but for the trail, to which it adds a step.
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the newest has not ended under this fence.
func (s *Store) Purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	err := s.inTransaction(ctx, func(c *conn) error { return s.purge(ctx, c, d, fence, step) })
	if err != nil {
		return fmt.Errorf("purge %s: %w", d, explain(err))
	}
	return nil
}

func (s *Store) purge(ctx context.Context, c *conn, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	locked, err := s.lockRows(ctx, c, s.sql.lock, rows{{d[:]}})
	if err != nil {
		return err
	}
	var records []*record // the newest last
	err = s.query(ctx, c, s.sql.purgeOlder, rows{{d[:]}}, func(row *sql.Rows) error {
		r := &record{digest: d}
		records = append(records, r)
		var state uint8
		err := row.Scan(&r.FirstFence, &r.Fence, &r.EndsAt, &state, &r.saved)
		r.State = retrysafe.State(state)
		return err
	})
	if err != nil {
		return err
	}
	var w writes
	var answers, all, older rows
	for _, r := range records {
		older = append(older, []any{d[:], r.FirstFence})
	}
	if r := locked[d]; r != nil && r.Readable(r.late) {
		records = append(records, r)
	}
	if len(records) == 0 {
		return retrysafe.ErrKeyUnknown
	}
	newest := records[len(records)-1]
	if !newest.State.Ended() || newest.Fence != fence {
		saved, err := s.hasStep(ctx, c, newest, step)
		if err == nil && !saved {
			err = retrysafe.ErrNotEnded
		}
		return err
	}
	for _, r := range records {
		all = append(all, []any{d[:], r.FirstFence})
		answers = append(answers, []any{r.EndsAt, d[:]})
	}
	newest.saveSteps(&w, []retrysafe.StepResult{step})
	if newest == locked[d] {
		newest.Keep.Replay = 0
		w.change(newest)
	}
	if err := s.dropContent(ctx, c, all, answers); err != nil {
		return err
	}
	if len(older) > 0 {
		if err := s.exec(ctx, c, s.sql.countOlder, older); err != nil {
			return err
		}
	}
	return s.writeAll(ctx, c, &w)
}
