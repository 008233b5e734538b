package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
)

// Purge drops what was answered of a key, and its steps but for the trail, to which it adds a step.
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the newest has not ended.
//
// PostgreSQL frees the bytes when it next vacuums their partition.
func (s *Store) Purge(ctx context.Context, d retrysafe.Digest, step retrysafe.StepResult) error {
	var state int16
	err := s.readCommitted(ctx, func(tx pgx.Tx) error {
		prefix := []byte(retrysafe.AuditStepPrefix)
		return tx.QueryRow(ctx, s.sql.purge, (*uuid)(&d), []byte(step.Name), (*binary)(&step.Data), prefix).Scan(&state)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = retrysafe.ErrKeyUnknown
	case err == nil && !retrysafe.State(state).Ended():
		err = retrysafe.ErrNotEnded
	}
	if err != nil {
		return fmt.Errorf("purge %s: %w", d, explain(err))
	}
	return nil
}
