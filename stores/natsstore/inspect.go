package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Inspect returns the records that are kept of a key, the newest first. If a part of them is missing from the bucket,
// it returns them without content, and an error that wraps [retrysafe.ErrUnreadable].
func (s *Store) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	found := []retrysafe.Record{}
	var lost error
	err := s.update(ctx, d, nil, func(e *entry, now storekit.Instant) (*entry, bool, error) {
		found, lost = found[:0], nil
		if e.lost {
			lost = fmt.Errorf("inspect %s: %w", d, errLost)
		}
		for _, r := range e.all() {
			if r.State != 0 && r.Readable(now) {
				found = append(found, r.forPeople(e.key, now))
			}
		}
		return nil, false, nil
	})
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", d, err)
	}
	return found, lost
}

// List returns up to p.Limit records, the newest first, without Meta, Body and steps.
//
// A bucket has no order but that of its keys: each call reads every entry of the bucket, with the answers in it, from
// one of the servers. That takes about a second for 100,000 records of 500 bytes, and as much network as the bucket is
// large. Claims go on meanwhile; what changes while the list is read may be missing or be in its old state.
func (s *Store) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	p = storekit.ListParams(p)
	var page storekit.Page
	var unread storekit.Unread
	begin := func() { page, unread = storekit.Page{Limit: p.Limit}, storekit.Unread{} }
	err := s.scanUntilCurrent(ctx, begin, &unread, func(k retrysafe.Key, r *record, now storekit.Instant) error {
		if storekit.Selects(p, k, r.State, r.FirstFence) {
			r.Meta, r.Body = nil, nil
			page.Add(r.View(k, now))
		}
		return nil
	})
	if err = cmp.Or(err, unread.Err()); err != nil {
		err = fmt.Errorf("list: %w", err)
	}
	return page.Records(), err
}

// Walk visits each record once, as List shows it. A record that changed within the last second may come twice, first as
// it was before: a server of the bucket may learn of a change so late.
func (s *Store) Walk(ctx context.Context, visit func(retrysafe.Record) error) error {
	var unread storekit.Unread
	_, err := s.scan(ctx, &unread, func(k retrysafe.Key, r *record, now storekit.Instant) error {
		r.Meta, r.Body = nil, nil
		return visit(r.View(k, now))
	})
	if err = cmp.Or(err, unread.Err()); err != nil {
		return fmt.Errorf("walk: %w", err)
	}
	return nil
}

// Stats counts the records that Inspect would show. It reads the whole bucket, as List does. Bytes is the space on one
// server, with entries of released keys and expired records, which the servers delete an hour after they have ended.
func (s *Store) Stats(ctx context.Context) (retrysafe.Stats, error) {
	var stats retrysafe.Stats
	var unread storekit.Unread
	begin := func() { stats, unread = retrysafe.Stats{}, storekit.Unread{} }
	err := s.scanUntilCurrent(ctx, begin, &unread, func(_ retrysafe.Key, r *record, now storekit.Instant) error {
		storekit.Count(&stats, r.State, !r.LeaseRuns(now))
		return nil
	})
	if err == nil {
		var info *jetstream.StreamInfo
		if info, err = s.clock.stream.Info(ctx); err == nil {
			stats.Bytes = int64(info.State.Bytes)
		}
	}
	if err = cmp.Or(err, unread.Err()); err != nil {
		err = fmt.Errorf("stats: %w", err)
	}
	return stats, err
}

// visitor is called with a record of a key, as of an instant.
type visitor func(retrysafe.Key, *record, storekit.Instant) error

// scanUntilCurrent scans until no record was visited in a state that it had lost before the scan. It calls begin first,
// which forgets what visit was called with.
func (s *Store) scanUntilCurrent(ctx context.Context, begin func(), unread *storekit.Unread, visit visitor) error {
	for pause := failurePause; ; pause = min(2*pause, lastFailurePause) {
		begin()
		if current, err := s.scan(ctx, unread, visit); current || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// scan visits each record that people may read, and leaves out entries that it cannot unpack. The server that it reads
// from may be behind the leader: scan goes on until it has seen what the leader had when it began. It is not current if
// a record was visited as it was before that.
func (s *Store) scan(ctx context.Context, unread *storekit.Unread, visit visitor) (current bool, err error) {
	r, err := s.clock.ask(ctx)
	if err != nil {
		return false, err
	}
	newest, err := s.newest(ctx)
	if err != nil {
		return false, err
	}
	bucket, err := s.js.KeyValue(ctx, s.options.Bucket)
	if err != nil {
		return false, err
	}
	watcher, err := bucket.Watch(ctx, "r.*")
	if err != nil {
		return false, err
	}
	defer func() { _ = watcher.Stop() }()
	var seen uint64
	visited, seed := map[uint64]struct{}{}, maphash.MakeSeed()
	var again <-chan time.Time // nil until all has been sent that the server had
	current = true
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case v, open := <-watcher.Updates():
			switch {
			case !open:
				closed := errors.New("the connection was closed before the listing was complete")
				return false, cmp.Or(ctx.Err(), closed)
			case v == nil:
				again = time.After(0)
			default:
				key := maphash.String(seed, v.Key())
				if _, twice := visited[key]; v.Revision() <= newest && (twice || again != nil) {
					current = false
				}
				visited[key] = struct{}{}
				if seen = v.Revision(); len(v.Value()) > 0 {
					err = visitEntry(v, r.ts, unread, visit)
				}
			}
		case <-again: // what was the newest then may have been deleted since
			var now uint64
			if now, err = s.newest(ctx); newest > now {
				newest = now
			}
			again = time.After(lastFailurePause)
		}
		if err != nil || again != nil && seen >= newest {
			return current, cmp.Or(err, ctx.Err())
		}
	}
}

// newest returns the number of the newest version of a record that the leader has; 0: there is none.
func (s *Store) newest(ctx context.Context) (uint64, error) {
	msg, err := s.reads.GetLastMsgForSubject(ctx, recordSpace(s.options.Bucket)+"*")
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return msg.Sequence, nil
}

func visitEntry(v jetstream.KeyValueEntry, now storekit.Instant, unread *storekit.Unread, visit visitor) error {
	e, _, err := unpackHead(v.Value(), instantOf(v.Created()))
	if err != nil {
		unread.LeaveOut(v.Key(), err)
		return nil
	}
	now = max(now, e.at)
	for _, r := range e.all() {
		if r.State != 0 && r.Readable(now) {
			if err := visit(e.key, r, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// Size returns the number of messages in the bucket's stream and the bytes that they take on one server, as the server
// knows them now. A record is one message, and one more for each part of a long answer; entries of released keys and
// expired records count until the servers delete them, an hour after they have ended.
func (s *Store) Size(ctx context.Context) (entries, bytes int64, err error) {
	info, err := s.clock.stream.Info(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("size: %w", err)
	}
	return int64(info.State.Msgs), int64(info.State.Bytes), nil
}

// ScansFully implements [retrysafe.FullScanner]: List and Stats read every record.
func (s *Store) ScansFully() bool { return true }
