package natsstore

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Reopen makes the operation of a key that has ended under this fence run again: it drops the answer, and the steps
// except the trail, to which it adds the step.
//
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the claim with that fence has not ended.
func (s *Store) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	step = step.Clone()
	err := s.update(ctx, d, nil, func(e *entry, now storekit.Instant) (*entry, bool, error) {
		switch {
		case !e.live(now):
			return nil, false, retrysafe.ErrKeyUnknown
		case e.hasStep(step.Name):
			return nil, false, nil
		case !e.State.Ended() || e.Fence != fence:
			return nil, false, retrysafe.ErrNotEnded
		}
		next := e.next(now)
		next.keepTrail()
		next.steps = append(next.steps, step)
		next.Code, next.Omitted, next.Meta, next.Body = 0, false, nil, nil
		next.end(retrysafe.Released)
		return next, true, nil
	})
	if err != nil {
		return fmt.Errorf("reopen %s: %w", d, err)
	}
	return nil
}
