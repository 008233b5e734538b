package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// Reopen makes the operation of a key that has ended under this fence run again: it drops the answer, and the steps
// except the trail, to which it adds the step. Like Purge it reads the record and replaces it, in two calls, and begins
// again if it has changed in between.
//
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the claim with that fence has not ended.
func (s *Store) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	err := errChanged
	for errors.Is(err, errChanged) && ctx.Err() == nil {
		err = s.reopen(ctx, d, fence, step)
	}
	if err != nil {
		return fmt.Errorf("reopen %s: %w", d, explain(err))
	}
	return nil
}

func (s *Store) reopen(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	g, err := s.read(ctx, d)
	if err != nil {
		return err
	}
	if !isRecord(g.main) {
		return retrysafe.ErrKeyUnknown
	}
	r, err := decode([]byte(g.main))
	switch {
	case err != nil:
		return err
	case r.Expired(g.now):
		return retrysafe.ErrKeyUnknown
	case hasStep(r, step):
		return nil
	case !r.State.Ended() || r.Fence != fence:
		return retrysafe.ErrNotEnded
	}
	answer, err := s.run(ctx, s.scripts.reopen, s.key(d), g.main, reopened(g.main, r, step), s.inScript)
	if err != nil {
		return err
	}
	done, err := answer.AsInt64()
	if err == nil && done == 0 {
		err = errChanged
	}
	return err
}

// reopened returns the record as one that was released, but for the time of that.
func reopened(b string, r *record, step retrysafe.StepResult) string {
	kept := []byte(withoutAnswer(b, r, &step))
	kept[stateAt] = byte(retrysafe.Released)
	kept[flagsAt] &^= omitted
	order.PutUint32(kept[codeAt:], 0)
	copy(kept[keepAt:firstAt], packKeep(r.Keep)) // withoutAnswer has ended the Replay window
	return string(kept)
}
