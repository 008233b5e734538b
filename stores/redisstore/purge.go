package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// errChanged is returned if a record has changed between two calls.
var errChanged = errors.New("the record has changed")

// Purge drops what was answered of a key, and its steps but for the trail, to which it adds a step. It reads the
// records and replaces them, in two calls, and begins again if they have changed in between.
//
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the newest has not ended under this fence. What an
// append-only file holds of the answer stays there until Redis rewrites the file (BGREWRITEAOF).
func (s *Store) Purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	err := errChanged
	for errors.Is(err, errChanged) && ctx.Err() == nil {
		err = s.purge(ctx, d, fence, step)
	}
	if err != nil {
		return fmt.Errorf("purge %s: %w", d, explain(err))
	}
	return nil
}

func (s *Store) purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	g, err := s.read(ctx, d)
	if err != nil {
		return err
	}
	purged, err := g.purged(fence, step)
	if err != nil || purged == nil {
		return err
	}
	args := append([]string{strconv.Itoa(len(g.older)), g.main, purged.main}, g.older...)
	answer, err := s.run(ctx, s.scripts.replace, s.key(d), append(args, purged.older...)...)
	if err != nil {
		return err
	}
	done, err := answer.AsInt64()
	if err == nil && done == 0 {
		err = errChanged
	}
	return err
}

// purged returns the records as they are to be; nil: as they are. The newest one that can be read gets the step.
func (g *generations) purged(fence int64, step retrysafe.StepResult) (*generations, error) {
	p := &generations{main: g.main, older: slices.Clone(g.older)}
	var records []*string
	if isRecord(p.main) {
		records = append(records, &p.main)
	}
	for i := range p.older {
		records = append(records, &p.older[i])
	}
	added := false
	for _, b := range records {
		r, err := decode([]byte(*b))
		switch {
		case err != nil:
			return nil, err
		case !r.Readable(g.now):
			continue
		case !added && (!r.State.Ended() || r.Fence != fence):
			if hasStep(r, step) {
				return nil, nil
			}
			return nil, retrysafe.ErrNotEnded
		case !added:
			added = true
			*b = withoutAnswer(*b, r, &step)
		default:
			*b = withoutAnswer(*b, r, nil)
		}
	}
	if !added {
		return nil, retrysafe.ErrKeyUnknown
	}
	return p, nil
}

func hasStep(r *record, step retrysafe.StepResult) bool {
	return slices.ContainsFunc(r.steps, func(s retrysafe.StepResult) bool { return s.Name == step.Name })
}

// withoutAnswer returns the record without Meta, Body and the work's steps, with its tags, and with one step more
// unless it has that.
func withoutAnswer(b string, r *record, step *retrysafe.StepResult) string {
	steps := slices.Clone(r.tags)
	for _, s := range r.steps {
		if strings.HasPrefix(s.Name, retrysafe.AuditStepPrefix) {
			steps = appendStep(steps, s)
		}
	}
	if step != nil && !hasStep(r, *step) {
		steps = appendStep(steps, *step)
	}
	kept := []byte(b[:headerSize+len(r.Fingerprint)+len(r.key.Scope)+len(r.key.ID)])
	order.PutUint64(kept[keepAt:], 0) // the Replay window
	order.PutUint32(kept[stepsAt:], uint32(len(steps)))
	order.PutUint32(kept[metaAt:], 0)
	return string(append(kept, steps...))
}
