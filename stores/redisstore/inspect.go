package redisstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// generations are the records of a key as they were read, and the server's time.
type generations struct {
	now   storekit.Instant
	main  string   // the record, or what is left of it
	older []string // the newest first
	seen  map[int64][]retrysafe.Sighting
}

// Inspect returns the records that are kept of a key, the newest first.
func (s *Store) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g, err := s.read(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", d, explain(err))
	}
	found := []retrysafe.Record{}
	for _, b := range g.all() {
		r, err := decode([]byte(b))
		if err != nil {
			return nil, fmt.Errorf("inspect %s: %w", d, err)
		}
		if r.Readable(g.now) {
			v := r.ForPeople(r.key, g.now, r.steps)
			v.Sightings = g.seen[r.FirstFence]
			found = append(found, v)
		}
	}
	return found, nil
}

// read reads the records of a key.
func (s *Store) read(ctx context.Context, d retrysafe.Digest) (g generations, err error) {
	answer, err := s.run(ctx, s.scripts.inspect, s.key(d))
	if err != nil {
		return g, err
	}
	parts, err := answer.ToArray()
	if err != nil || len(parts) != 4 {
		return g, cmp.Or(err, errFormat)
	}
	if g.now, err = parts[0].AsInt64(); err != nil {
		return g, err
	}
	if g.main, err = parts[1].ToString(); err != nil {
		return g, err
	}
	if g.older, err = parts[2].AsStrSlice(); err != nil {
		return g, err
	}
	g.seen, err = readSightings(parts[3], g.now)
	return g, err
}

// all returns the records, the newest first.
func (g *generations) all() []string {
	if !isRecord(g.main) {
		return g.older
	}
	return append([]string{g.main}, g.older...)
}

// List returns up to p.Limit records, the newest first, without Meta, Body and steps.
//
// It reads the head of every record that the store holds, a thousand at a time (SCAN), and so costs the servers a few
// seconds for each million records, during which they answer other calls between two batches.
func (s *Store) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p = storekit.ListParams(p)
	page := storekit.Page{Limit: p.Limit} // SCAN may return a key twice
	var unread storekit.Unread
	err := s.scan(ctx, false, func(b batch) error {
		return b.each(&unread, func(r *record) error {
			if storekit.Selects(p, r.key, r.State, r.FirstFence) {
				page.Add(r.summary(b.now))
			}
			return nil
		})
	})
	if err = cmp.Or(err, unread.Err()); err != nil {
		err = fmt.Errorf("list: %w", explain(err))
	}
	return page.Records(), err
}

// Walk visits each record, as List shows it, a thousand at a time.
func (s *Store) Walk(ctx context.Context, visit func(retrysafe.Record) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var unread storekit.Unread
	err := s.scan(ctx, false, func(b batch) error {
		return b.each(&unread, func(r *record) error { return visit(r.summary(b.now)) })
	})
	if err = cmp.Or(err, unread.Err()); err != nil {
		return fmt.Errorf("walk: %w", explain(err))
	}
	return nil
}

// each visits the records of a batch that people may read. It leaves out those that cannot be decoded.
func (b batch) each(unread *storekit.Unread, visit func(*record) error) error {
	for i, head := range b.heads {
		r, err := decode([]byte(head))
		switch {
		case err != nil:
			unread.LeaveOut(b.names[i], err)
		case r.Readable(b.now):
			if err := visit(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// summary is the record without steps, Meta and Body.
func (r *record) summary(now storekit.Instant) retrysafe.Record {
	v := r.View(r.key, now)
	v.Result.Meta, v.Result.Body = nil, nil
	return v
}

// Stats counts the records, and adds up the memory that they and the index take (MEMORY USAGE). It looks at every
// record: see List. While a server resizes its table of keys, a record may be counted twice.
func (s *Store) Stats(ctx context.Context) (retrysafe.Stats, error) {
	if err := ctx.Err(); err != nil {
		return retrysafe.Stats{}, err
	}
	var stats retrysafe.Stats
	_, bytes, err := s.indexSize(ctx)
	if err != nil {
		return stats, fmt.Errorf("stats: %w", explain(err))
	}
	stats.Bytes = bytes
	var unread storekit.Unread
	err = s.scan(ctx, true, func(b batch) error {
		stats.Bytes += b.bytes
		for i, head := range b.heads {
			if r, err := decode([]byte(head)); err != nil {
				unread.LeaveOut(b.names[i], err)
			} else {
				storekit.Count(&stats, r.State, !r.LeaseRuns(b.now))
			}
		}
		return nil
	})
	if err = cmp.Or(err, unread.Err()); err != nil {
		err = fmt.Errorf("stats: %w", explain(err))
	}
	return stats, err
}

// ScansFully implements [retrysafe.FullScanner]: List and Stats read every record.
func (s *Store) ScansFully() bool { return true }
