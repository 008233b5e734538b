package dynamostore

import (
	"context"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// Purge drops what was answered of a key, and its steps except the trail, to which it adds the step. It writes the
// newest record first, which decides; the older ones follow, each by a write of its own. If an error comes in
// between, Purge is to be called again.
//
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the newest has not ended under this fence.
// Point-in-time recovery and backups of the table keep what they have saved.
func (s *Store) Purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for b := (backoff{}); ; {
		done, err := s.purge(ctx, d, fence, savedStep{StepResult: step})
		if err == nil && !done {
			err = b.wait(ctx)
		}
		if err != nil || done {
			return call(ctx, "purge", d, err)
		}
	}
}

func (s *Store) purge(ctx context.Context, d retrysafe.Digest, fence int64, step savedStep) (done bool, err error) {
	k, err := s.kept(ctx, d)
	switch {
	case err != nil:
		return false, err
	case len(k.readable) == 0:
		return false, retrysafe.ErrKeyUnknown
	}
	newest := k.readable[0]
	ended, purged := newest.State.Ended() && newest.Fence == fence, newest.hasStep(step.Name)
	if !ended && !purged {
		return false, retrysafe.ErrNotEnded
	}
	for _, r := range slices.Concat(k.readable, k.copies) {
		trail := r.trail()
		switch {
		case r == newest && !ended: // an earlier call has purged it, and may have failed before it came to the others
			continue
		case r == newest && !purged:
			trail = append(trail, step)
		}
		if ok, err := s.dropContent(ctx, r, trail); err != nil || !ok {
			return false, err
		}
	}
	// What no record names any more, and what calls have left that failed. Records that were claimed since, and their
	// parts, have a larger fence.
	for name := range k.items {
		if strings.HasPrefix(name, prefixParts) && name < prefixParts+fenceText(fence+1) &&
			!slices.ContainsFunc(k.readable, func(r *record) bool { return r.inTrail(name) }) {
			if _, err := s.delete(ctx, itemKey(d.String(), name), "", nil); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// trail is what Purge keeps of the steps.
func (r *record) trail() (trail []savedStep) {
	for _, s := range r.steps {
		if isTrail(s) {
			trail = append(trail, s)
		}
	}
	return trail
}

func isTrail(s savedStep) bool { return strings.HasPrefix(s.Name, retrysafe.AuditStepPrefix) }

// inTrail reports whether a part belongs to a step that Purge keeps.
func (r *record) inTrail(part string) bool {
	return slices.ContainsFunc(r.trail(), func(s savedStep) bool {
		return s.parts != nil && strings.HasPrefix(part, s.parts.prefix)
	})
}

// dropContent drops what the record says beside the steps, and ends its Replay window, so that no process whose clock
// is behind replays an answer that is gone. ok is false if the record has changed since it was read.
func (s *Store) dropContent(ctx context.Context, r *record, steps []savedStep) (ok bool, err error) {
	w := write{
		update: "SET kr = :zero, ve = ve + :one", condition: sameVersion,
		values: r.seen(item{":zero": number(0), ":one": number(1)}),
	}
	remove := " REMOVE me, bo, pa"
	if len(steps) > 0 {
		w.update += ", sp = :steps, sn = :names"
		w.values[":steps"], w.values[":names"] = encodeSteps(steps), stepNames(steps)
	} else {
		remove += ", sp, sn, au"
	}
	w.update += remove
	_, ok, err = s.write(ctx, itemKey(r.digest(), r.part()), w)
	return ok, err
}
