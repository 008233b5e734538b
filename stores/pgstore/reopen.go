package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
)

// Reopen makes the operation of a key that has ended under this fence run again: it drops the answer, and the steps
// except the trail, to which it adds the step.
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the claim with that fence has not ended.
func (s *Store) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	var reopened bool
	err := s.readCommitted(ctx, func(tx pgx.Tx) error {
		// The second statement sees what a transaction has committed that held the row until then.
		if _, err := tx.Exec(ctx, s.sql.lock, (*uuid)(&d)); err != nil {
			return err
		}
		prefix := []byte(retrysafe.AuditStepPrefix)
		return tx.QueryRow(ctx, s.sql.reopen, (*uuid)(&d), fence, []byte(step.Name), (*binary)(&step.Data), prefix).
			Scan(&reopened)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = retrysafe.ErrKeyUnknown
	case err == nil && !reopened:
		err = retrysafe.ErrNotEnded
	}
	if err != nil {
		return fmt.Errorf("reopen %s: %w", d, explain(err))
	}
	return nil
}
