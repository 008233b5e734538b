package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
)

// Purge drops what was answered of a key, and its steps but for the trail, to which it adds a step.
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the newest has not ended under this fence.
//
// PostgreSQL frees the bytes when it next vacuums their partition.
func (s *Store) Purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	var purged bool
	err := s.readCommitted(ctx, func(tx pgx.Tx) error {
		// The second statement sees what a transaction has committed that held the row until then.
		if _, err := tx.Exec(ctx, s.sql.lock, (*uuid)(&d)); err != nil {
			return err
		}
		prefix := []byte(retrysafe.AuditStepPrefix)
		return tx.QueryRow(ctx, s.sql.purge, (*uuid)(&d), fence, []byte(step.Name), (*binary)(&step.Data), prefix).
			Scan(&purged)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = retrysafe.ErrKeyUnknown
	case err == nil && !purged:
		err = retrysafe.ErrNotEnded
	}
	if err != nil {
		return fmt.Errorf("purge %s: %w", d, explain(err))
	}
	return nil
}
