package sqlitestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// Reopen makes the operation of a key that has ended under this fence run again: it drops the answer, and the steps
// except the trail, to which it adds the step.
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the claim with that fence has not ended.
func (s *Store) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	err := s.writer.write(ctx, func(t *writeTx) error { return t.reopen(d, fence, step) })
	if err != nil {
		return fmt.Errorf("reopen %s: %w", d, err)
	}
	return nil
}

func (t *writeTx) reopen(d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	r, err := find(t, d, noBody)
	switch {
	case err != nil:
		return err
	case r == nil || r.Expired(t.now):
		return retrysafe.ErrKeyUnknown
	}
	steps, err := loadSteps(t, r)
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(steps, func(s retrysafe.StepResult) bool { return s.Name == step.Name }):
		return nil
	case !r.State.Ended() || r.Fence != fence:
		return retrysafe.ErrNotEnded
	}
	if _, err := t.exec("purge_steps", r.id(), blob(retrysafe.AuditStepPrefix)); err != nil {
		return err
	}
	if err := addStep(t, r, step); err != nil {
		return err
	}
	t.wake(d)
	t.deadlines = append(t.deadlines, deadline{r.id(), t.now + r.Keep.Key})
	if _, err := t.exec("reopen", r.id(), t.now); err != nil {
		return err
	}
	return indexReopened(t, r.id())
}
