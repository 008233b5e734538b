package natsstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Purge drops the answer of a key, and its steps except the trail, to which it adds the step s. The bucket keeps no
// older versions of a record, and a replica that is down drops its copy when it is back.
//
// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the newest has not ended under this fence.
func (s *Store) Purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	step = step.Clone()
	var read uint64 // the version whose parts, and those of all before it, are to go
	err := s.update(ctx, d, nil, func(e *entry, now storekit.Instant) (*entry, bool, error) {
		next := e.next(now)
		newest := next.newest(now)
		switch {
		case newest == nil:
			return nil, false, retrysafe.ErrKeyUnknown
		case (!newest.State.Ended() || newest.Fence != fence) && newest.hasStep(step.Name):
			if e.parts.count == 0 {
				read = e.rev
			}
			return nil, false, nil
		case !newest.State.Ended() || newest.Fence != fence:
			return nil, false, retrysafe.ErrNotEnded
		}
		if !newest.hasStep(step.Name) {
			newest.steps = append(slices.Clip(newest.steps), step)
		}
		for _, r := range next.all() {
			r.purge()
		}
		read = e.rev
		return next, false, nil
	})
	if err == nil && read > 0 {
		err = s.dropPartsBefore(ctx, d, read)
	}
	if err != nil {
		return fmt.Errorf("purge %s: %w", d, err)
	}
	return nil
}

// dropPartsBefore deletes the parts that were stored before a version of a key's entry, and tries until
// Options.Timeout. They are those of this version and of earlier ones, also if an earlier call of Purge has replaced
// these and then failed: the parts of a version are stored after the one that it replaces.
func (s *Store) dropPartsBefore(ctx context.Context, d retrysafe.Digest, rev uint64) error {
	all := partSpace(s.options.Bucket) + d.String() + ".>"
	limited, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	for tries := 0; ; tries++ {
		try, end := context.WithTimeout(limited, s.tryTimeout<<min(tries, 10))
		err := s.reads.Purge(try, jetstream.WithPurgeSubject(all), jetstream.WithPurgeSequence(rev))
		end()
		switch {
		case err == nil:
			return nil
		case temporary(err) && pauseFor(limited, err, tries):
			continue
		}
		return fmt.Errorf("the answer was dropped from the record, but not the parts in which it was stored, which stay in "+
			"the bucket until their TTL has passed: %w", err)
	}
}

// newest returns the newest record that people may read, or nil.
func (e *entry) newest(now storekit.Instant) *record {
	for _, r := range e.all() {
		if r.State != 0 && r.Readable(now) {
			return r
		}
	}
	return nil
}

// purge drops the content of a record.
func (r *record) purge() {
	r.Meta, r.Body, r.Keep.Replay = nil, nil, 0
	r.keepTrail()
}

// keepTrail drops the steps except those of the trail. The slice is a new one, since other versions share the old one.
func (r *record) keepTrail() {
	r.steps = slices.DeleteFunc(slices.Clone(r.steps), func(s retrysafe.StepResult) bool {
		return !strings.HasPrefix(s.Name, retrysafe.AuditStepPrefix)
	})
}
