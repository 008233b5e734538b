package shardstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Inspect returns the records that the key's shard keeps of it, the newest first. During a move it returns those of the
// store whose record a claim would report. It returns errors.ErrUnsupported if the shard is not an Inspector.
func (s *Store) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	at := s.place(d)
	known, err := at.first.inspect(ctx, d)
	if err != nil || at.second == nil {
		return known, err
	}
	if len(known) > 0 && known[0].State.Ended() && known[0].KeyLeft > 0 {
		return known, nil
	}
	other, err := at.second.inspect(ctx, d)
	if err != nil || len(other) == 0 {
		return known, err
	}
	ended := other[0].State.Ended() && other[0].KeyLeft > 0
	switch {
	case ended, len(known) == 0 && s.stage == NewDecides:
		return other, nil
	case len(known) > 0 && !known[0].State.Ended() && !other[0].State.Ended():
		known[0] = s.merge(known[0], other[0])
	}
	return known, nil
}

func (s *shard) inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	inspector, ok := retrysafe.As[retrysafe.Inspector](s.Store)
	if !ok {
		return nil, s.unsupported("retrysafe.Inspector")
	}
	found, err := inspector.Inspect(ctx, d)
	return found, s.explain(err)
}

// states is inspect for what needs no content: a record whose content cannot be decrypted comes without it.
func (s *shard) states(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	found, err := s.inspect(ctx, d)
	if len(found) > 0 && errors.Is(err, retrysafe.ErrUnreadable) {
		err = nil
	}
	return found, err
}

// Stats adds up what the shards count, during a move those that decide; Bytes are those of all. What a
// shard holds of keys that are not its own any more is counted too, and so is the old record of a key that moves from
// one shard to another of the new ones. It returns errors.ErrUnsupported if a shard is not an Inspector.
func (s *Store) Stats(ctx context.Context) (retrysafe.Stats, error) {
	decide, _ := s.decide()
	var sum retrysafe.Stats
	var unread []error
	for _, of := range s.all {
		inspector, ok := retrysafe.As[retrysafe.Inspector](of.Store)
		if !ok {
			return sum, of.unsupported("retrysafe.Inspector")
		}
		stats, err := inspector.Stats(ctx)
		switch {
		case errors.Is(err, retrysafe.ErrUnreadable):
			unread = append(unread, of.explain(err))
		case err != nil:
			return retrysafe.Stats{}, of.explain(err)
		}
		sum.Bytes += stats.Bytes
		if !slices.Contains(decide, of) {
			continue
		}
		sum.Pending += stats.Pending
		sum.Abandoned += stats.Abandoned
		sum.Released += stats.Released
		sum.Succeeded += stats.Succeeded
		sum.Failed += stats.Failed
	}
	return sum, errors.Join(unread...)
}

// Purge purges the key on its shard, during a move on both. A record that has ended in one of them alone is ended in
// the other too, because it has the steps of the attempt. The fence is that of either record. It returns
// errors.ErrUnsupported if a shard of the key is not a Purger, and [retrysafe.ErrNotEnded] if the other record's lease
// still runs: then repeat the call after that; or if the key was reopened before both records were purged: then purge
// it when it has ended again.
func (s *Store) Purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	at := s.place(d)
	if at.second == nil {
		return at.first.purge(ctx, d, fence, step)
	}
	for range rounds {
		both, err := s.copies(ctx, "purge", d, at)
		if err != nil {
			return err
		}
		ended := func(c recordCopy) bool { return c.State.Ended() }
		lacks := func(c recordCopy) bool { return !hasStep(c.Record, step) }
		i := slices.IndexFunc(both, func(c recordCopy) bool { return ended(c) && c.Fence == fence })
		switch {
		case len(both) == 0:
			return fmt.Errorf("purge %s: %w", d, retrysafe.ErrKeyUnknown)
		case i < 0 && !slices.ContainsFunc(both, lacks):
			return nil // purged, and reopened or claimed since
		case i < 0: // perhaps a call between both stores: earlier answers are left in one of them
			return fmt.Errorf("purge %s: %w", d, retrysafe.ErrNotEnded)
		}
		lagging := slices.IndexFunc(both, func(c recordCopy) bool { return unfinished(c.Record) })
		if lagging >= 0 {
			if err := s.endLike(ctx, both[lagging].of, both[lagging].Record, both[i].Record); err != nil {
				return fmt.Errorf("purge %s: %w", d, err)
			}
			continue
		}
		for _, c := range slices.DeleteFunc(both, func(c recordCopy) bool { return !ended(c) }) {
			if err := c.of.purge(ctx, d, c.Fence, step); err != nil {
				return err
			}
		}
		return nil
	}
	return changesAllTheTime("purge "+d.String(), at)
}

// unfinished reports whether the record has what purging or reopening its key takes away: an attempt, or steps of the
// work. What has neither was reopened.
func unfinished(r retrysafe.Record) bool {
	work := func(step retrysafe.StepResult) bool { return !strings.HasPrefix(step.Name, retrysafe.AuditStepPrefix) }
	return r.State == retrysafe.Pending || r.State == retrysafe.Released && slices.ContainsFunc(r.Steps, work)
}

// endLike ends the unfinished record r of a shard as after has ended in another one. Nothing changes if another attempt
// has claimed r meanwhile.
func (s *Store) endLike(ctx context.Context, of *shard, r, after retrysafe.Record) error {
	running := func(r retrysafe.Record) error {
		return of.explain(fmt.Errorf("%w: its lease runs for another %v; repeat the call then", retrysafe.ErrNotEnded, r.LeaseLeft))
	}
	if r.LeaseLeft > 0 {
		return running(r)
	}
	keep := retrysafe.Retention{Replay: 1, Key: max(1, after.KeyLeft), Audit: max(1, after.AuditLeft)}
	got, err := s.claimIn(ctx, of, retrysafe.ClaimParams{
		Key: r.Key, Fingerprint: r.Fingerprint, Owner: retrysafe.NewOwner(), Lease: time.Minute, Keep: keep, TakeOver: true,
		StateOnly: true,
	})
	switch {
	case err != nil:
		return err
	case got.Verdict == retrysafe.InFlight:
		return running(got.Record)
	case got.Verdict == retrysafe.Acquired && got.Record.Attempt != r.Attempt+1:
		got.tookOver = r.State == retrysafe.Pending
		return s.giveBack(ctx, got)
	case got.Verdict == retrysafe.Acquired:
		return of.explain(of.Store.Complete(ctx, got.Lease, after.Result, keep))
	}
	return nil
}

// EndLease ends the lease on the key's shard, during a move on both. It returns errors.ErrUnsupported if a shard of the
// key is not a LeaseEnder.
func (s *Store) EndLease(ctx context.Context, d retrysafe.Digest, fence int64) error {
	at := s.place(d)
	if at.second != nil {
		known, err := at.second.states(ctx, d)
		if err == nil && len(known) > 0 {
			err = at.second.endLease(ctx, d, known[0].Fence)
		}
		if err != nil && !errors.Is(err, retrysafe.ErrLeaseLost) {
			return err
		}
	}
	return at.first.endLease(ctx, d, fence)
}

func (s *shard) endLease(ctx context.Context, d retrysafe.Digest, fence int64) error {
	ender, ok := retrysafe.As[retrysafe.LeaseEnder](s.Store)
	if !ok {
		return s.unsupported("retrysafe.LeaseEnder")
	}
	return s.explain(ender.EndLease(ctx, d, fence))
}

func (s *shard) purge(ctx context.Context, d retrysafe.Digest, fence int64, step retrysafe.StepResult) error {
	purger, ok := retrysafe.As[retrysafe.Purger](s.Store)
	if !ok {
		return s.unsupported("retrysafe.Purger")
	}
	return s.explain(purger.Purge(ctx, d, fence, step))
}

// Size adds up the sizes of the shards, during a move of all; of a shard that is not a [retrysafe.Sizer], and that
// counts its records without reading all of them, what Stats returns. It returns errors.ErrUnsupported if a shard can
// do neither.
func (s *Store) Size(ctx context.Context) (entries, bytes int64, err error) {
	for _, of := range s.all {
		n, b, err := of.size(ctx)
		if err != nil {
			return 0, 0, err
		}
		entries, bytes = entries+n, bytes+b
	}
	return entries, bytes, nil
}

func (s *shard) size(ctx context.Context) (entries, bytes int64, err error) {
	if sizer, ok := retrysafe.As[retrysafe.Sizer](s.Store); ok {
		entries, bytes, err = sizer.Size(ctx)
		return entries, bytes, s.explain(err)
	}
	scanner, scans := retrysafe.As[retrysafe.FullScanner](s.Store)
	inspector, ok := retrysafe.As[retrysafe.Inspector](s.Store)
	if !ok || scans && scanner.ScansFully() {
		return 0, 0, s.unsupported("retrysafe.Sizer")
	}
	stats, err := inspector.Stats(ctx)
	return stats.Pending + stats.Released + stats.Succeeded + stats.Failed, stats.Bytes, s.explain(err)
}

// ScansFully implements [retrysafe.FullScanner]: it reports whether a shard does.
func (s *Store) ScansFully() bool {
	return slices.ContainsFunc(s.all, func(one *shard) bool {
		scanner, ok := retrysafe.As[retrysafe.FullScanner](one.Store)
		return ok && scanner.ScansFully()
	})
}
