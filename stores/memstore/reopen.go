package memstore

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// Reopen makes the operation of a key that has ended under this fence run again: it drops the answer, and the steps
// except the trail, to which it adds the step.
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the claim with that fence has not ended.
func (s *Store) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock()
	r := s.live(d, now)
	switch {
	case r == nil:
		return fmt.Errorf("reopen %s: %w", d, retrysafe.ErrKeyUnknown)
	case r.hasStep(step.Name):
		return nil
	case !r.state.Ended() || r.fence != fence:
		return fmt.Errorf("reopen %s: %w", d, retrysafe.ErrNotEnded)
	}
	r.keepTrail()
	r.steps = append(r.steps, step.Clone())
	r.state, r.result, r.endsAt = retrysafe.Released, retrysafe.Result{}, now
	r.swept = false
	s.changed(r)
	s.watches.Wake(d)
	return nil
}
