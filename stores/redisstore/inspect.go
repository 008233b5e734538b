package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// generations are the records of a key as they were read, and the server's time.
type generations struct {
	now   storekit.Instant
	main  string   // the record, or what is left of it
	older []string // the newest first
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
			found = append(found, r.forPeople(g.now))
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
	if err != nil || len(parts) != 3 {
		return g, cmp.Or(err, errFormat)
	}
	if g.now, err = parts[0].AsInt64(); err != nil {
		return g, err
	}
	if g.main, err = parts[1].ToString(); err != nil {
		return g, err
	}
	g.older, err = parts[2].AsStrSlice()
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
	page := page{params: p}
	err := s.scan(ctx, false, page.add)
	if err != nil {
		return nil, fmt.Errorf("list: %w", explain(err))
	}
	return page.records(), nil
}

// Walk visits each record, as List shows it, a thousand at a time.
func (s *Store) Walk(ctx context.Context, visit func(retrysafe.Record) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.scan(ctx, false, func(b batch) error {
		all := page{params: storekit.ListParams(retrysafe.ListParams{}), whole: true}
		if err := all.add(b); err != nil {
			return err
		}
		for _, r := range all.found {
			if err := visit(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("walk: %w", explain(err))
	}
	return nil
}

// page is the newest records of those that have been seen.
type page struct {
	params retrysafe.ListParams
	whole  bool // it has no end
	found  []retrysafe.Record
}

func (p *page) add(b batch) error {
	for _, head := range b.heads {
		r, err := decode([]byte(head))
		if err != nil {
			return err
		}
		if r.Readable(b.now) && p.selects(r) {
			v := r.View(r.key, b.now)
			v.Result.Meta, v.Result.Body = nil, nil
			p.found = append(p.found, v)
		}
	}
	if !p.whole && len(p.found) > 10*p.params.Limit {
		p.trim()
	}
	return nil
}

func (p *page) selects(r *record) bool {
	return r.FirstFence < p.params.Before &&
		(p.params.State == 0 || r.State == p.params.State) &&
		(p.params.Scope == nil || r.key.Scope == *p.params.Scope)
}

// trim drops what is not on the page. SCAN may return a key twice.
func (p *page) trim() {
	slices.SortFunc(p.found, func(a, b retrysafe.Record) int {
		if c := cmp.Compare(b.FirstFence, a.FirstFence); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(a.Key.Scope, b.Key.Scope), cmp.Compare(a.Key.ID, b.Key.ID))
	})
	p.found = slices.CompactFunc(p.found, func(a, b retrysafe.Record) bool {
		return a.FirstFence == b.FirstFence && a.Key == b.Key
	})
	n := min(p.params.Limit, len(p.found))
	for n > 0 && n < len(p.found) && p.found[n].FirstFence == p.found[n-1].FirstFence {
		n++
	}
	p.found = p.found[:n]
}

func (p *page) records() []retrysafe.Record {
	p.trim()
	if p.found == nil {
		return []retrysafe.Record{}
	}
	return p.found
}

// Stats counts the records, and adds up the memory that they take (MEMORY USAGE). It looks at every record: see List.
// While a server resizes its table of keys, a record may be counted twice.
func (s *Store) Stats(ctx context.Context) (retrysafe.Stats, error) {
	if err := ctx.Err(); err != nil {
		return retrysafe.Stats{}, err
	}
	var stats retrysafe.Stats
	err := s.scan(ctx, true, func(b batch) error {
		stats.Bytes += b.bytes
		for _, head := range b.heads {
			r, err := decode([]byte(head))
			if err != nil {
				return err
			}
			count(&stats, r, b.now)
		}
		return nil
	})
	if err != nil {
		return retrysafe.Stats{}, fmt.Errorf("stats: %w", explain(err))
	}
	return stats, nil
}

func count(stats *retrysafe.Stats, r *record, now storekit.Instant) {
	switch r.State {
	case retrysafe.Pending:
		stats.Pending++
		if !r.LeaseRuns(now) {
			stats.Abandoned++
		}
	case retrysafe.Released:
		stats.Released++
	case retrysafe.Succeeded:
		stats.Succeeded++
	case retrysafe.Failed:
		stats.Failed++
	}
}

// ScansFully implements [retrysafe.FullScanner]: List and Stats read every record.
func (s *Store) ScansFully() bool { return true }
