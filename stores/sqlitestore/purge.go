package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// Purge drops what was answered of a key, and its steps but for the trail, to which it adds a step.
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the newest has not ended under this fence.
//
// SQLite overwrites the bytes when it uses their pages again; with PRAGMA secure_delete at once, but for the
// write-ahead log.
func (s *Store) Purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	err := s.writer.write(ctx, func(t *writeTx) error {
		shown, err := t.shown(d)
		switch {
		case err != nil:
			return err
		case len(shown) == 0:
			return retrysafe.ErrKeyUnknown
		case !shown[0].State.Ended() || shown[0].Fence != fence:
			steps, err := loadSteps(t, shown[0])
			if err == nil && !slices.ContainsFunc(steps, func(s retrysafe.StepResult) bool { return s.Name == step.Name }) {
				err = retrysafe.ErrNotEnded
			}
			return err
		}
		for _, r := range shown {
			if _, err := t.exec("purge", r.id()); err != nil {
				return err
			}
			if _, err := t.exec("purge_steps", r.id(), blob(retrysafe.AuditStepPrefix)); err != nil {
				return err
			}
		}
		return addStep(t, shown[0], step)
	})
	if err != nil {
		return fmt.Errorf("purge %s: %w", d, err)
	}
	return nil
}

// shown returns the records of a key that people may read, the newest first.
func (t *writeTx) shown(d retrysafe.Digest) (shown []*record, err error) {
	err = t.all("inspect", func(row []driver.Value) error {
		r, _, err := scanKept(row)
		if err == nil && r.Readable(t.now) {
			shown = append(shown, r)
		}
		return err
	}, d[:])
	return shown, err
}
