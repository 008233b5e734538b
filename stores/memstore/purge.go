package memstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// Purge drops the answer of a key, and its steps except the trail, to which it adds the step s.
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the newest has not ended under this fence.
func (s *Store) Purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Clock()
	newest := s.records[d]
	for newest != nil && !newest.readable(now) {
		newest = newest.older
	}
	switch {
	case newest == nil:
		return fmt.Errorf("purge %s: %w", d, retrysafe.ErrKeyUnknown)
	case (!newest.state.Ended() || newest.fence != fence) && newest.hasStep(step.Name):
		return nil
	case !newest.state.Ended() || newest.fence != fence:
		return fmt.Errorf("purge %s: %w", d, retrysafe.ErrNotEnded)
	case !newest.hasStep(step.Name):
		newest.steps = append(newest.steps, step.Clone())
	}
	for r := newest; r != nil; r = r.older {
		r.purge()
		s.changed(r)
	}
	return nil
}

// purge drops the content of an ended record.
func (r *record) purge() {
	r.result.Meta, r.result.Body = nil, nil
	r.keep.Replay = 0
	r.keepTrail()
}

// keepTrail drops the steps except those of the trail. The slice is a new one, since readers may have the old one.
func (r *record) keepTrail() {
	var trail []retrysafe.StepResult
	for _, step := range r.steps {
		if strings.HasPrefix(step.Name, retrysafe.AuditStepPrefix) {
			trail = append(trail, step)
		}
	}
	r.steps = trail
}
