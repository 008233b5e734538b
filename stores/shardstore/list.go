package shardstore

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// List merges the listings of all shards, the newest records first by the fences that their shards gave: as far as the
// clocks of the shards agree. It reads a page of each shard, and more where a shard holds records of keys that are not
// its own. During a move it shows each key once, and reads the records of the new shards for what the old ones have. At
// the stage OldDecides a listing of records that have succeeded or failed lacks those that have done so in the new
// store alone.
//
// It returns errors.ErrUnsupported if a shard is not an Inspector.
func (s *Store) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	p = storekit.ListParams(p)
	var pages []*pages
	for _, of := range s.all {
		inspector, ok := retrysafe.As[retrysafe.Inspector](of.Store)
		if !ok {
			return nil, of.unsupported("retrysafe.Inspector")
		}
		pages = append(pages, s.pagesOf(of, inspector.List, p))
	}
	return merge(ctx, pages, p.Limit)
}

// Find merges what the shards find as List merges listings. It returns errors.ErrUnsupported if a shard is not a
// Finder.
func (s *Store) Find(ctx context.Context, p retrysafe.FindParams) ([]retrysafe.Record, error) {
	p.ListParams = storekit.ListParams(p.ListParams)
	var pages []*pages
	for _, of := range s.all {
		finder, ok := retrysafe.As[retrysafe.Finder](of.Store)
		if !ok {
			return nil, of.unsupported("retrysafe.Finder")
		}
		read := func(ctx context.Context, page retrysafe.ListParams) ([]retrysafe.Record, error) {
			p.ListParams = page
			return finder.Find(ctx, p)
		}
		pages = append(pages, s.pagesOf(of, read, p.ListParams))
	}
	return merge(ctx, pages, p.Limit)
}

// merge returns the newest records of all pages, as many as limit says. Records whose FirstFence is that of the last
// one come with it, from whichever shard.
func merge(ctx context.Context, pages []*pages, limit int) ([]retrysafe.Record, error) {
	found, oldest := []retrysafe.Record{}, int64(math.MinInt64)
	for {
		newest, err := newestOf(ctx, pages, oldest)
		if err != nil || newest == nil {
			return found, cmp.Or(err, unreadIn(pages))
		}
		if found = append(found, newest.page[0]); len(found) == limit {
			oldest = newest.page[0].FirstFence
		}
		newest.page = newest.page[1:]
	}
}

// unreadIn returns the errors of shards that have left out records which they cannot read.
func unreadIn(all []*pages) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, one.of.explain(one.unread))
	}
	return errors.Join(errs...)
}

// Walk visits each record that List shows, one shard after the other: in one pass if the shard is a [retrysafe.Walker],
// and page by page otherwise.
//
// It returns errors.ErrUnsupported if a shard is not an Inspector.
func (s *Store) Walk(ctx context.Context, visit func(retrysafe.Record) error) error {
	var unread []error
	for _, of := range s.all {
		var stopped error
		err := of.walk(ctx, func(r retrysafe.Record) error {
			shown, err := s.shown(ctx, of, &r, 0)
			switch {
			case errors.Is(err, retrysafe.ErrUnreadable):
				unread = append(unread, of.explain(err))
				return nil
			case err == nil && shown:
				err = visit(r)
			}
			stopped = err
			return err
		})
		switch {
		case stopped == nil && errors.Is(err, retrysafe.ErrUnreadable):
			unread = append(unread, of.explain(err))
		case err != nil:
			return err
		}
	}
	return errors.Join(unread...)
}

func (of *shard) walk(ctx context.Context, visit func(retrysafe.Record) error) error {
	inspector, ok := retrysafe.As[retrysafe.Inspector](of.Store)
	if !ok {
		return of.unsupported("retrysafe.Inspector")
	}
	return retrysafe.Walk(ctx, inspector, visit)
}

// reader returns a page of a listing.
type reader func(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error)

// pages reads the listing of one shard page by page.
type pages struct {
	of    *shard
	read  reader
	shown func(ctx context.Context, r *retrysafe.Record) (bool, error)
	next  retrysafe.ListParams
	page  []retrysafe.Record // read and not yet used
	ended bool
	// unread is the error of a shard that has left out records which it cannot read.
	unread error
}

func (s *Store) pagesOf(of *shard, read reader, p retrysafe.ListParams) *pages {
	return &pages{
		of: of, read: read, next: p,
		shown: func(ctx context.Context, r *retrysafe.Record) (bool, error) { return s.shown(ctx, of, r, p.State) },
	}
}

// shown reports whether a listing of records in this state, 0 for any, shows a key's record that this shard has: if the
// shard decides, or if the one that decides knows nothing of the key and will see this record when it is claimed.
//
// A record of the shard that decides becomes what Inspect shows if it has not ended: the attempt may have ended in the
// other store alone, or an InTx of the stage before may have completed it there, and it would be listed as abandoned. A
// listing of ended records has such a key at the stage NewDecides. At OldDecides it does not: each record of the new
// store would be looked up in the old one.
func (s *Store) shown(ctx context.Context, of *shard, r *retrysafe.Record, state retrysafe.State) (bool, error) {
	d := r.Key.Digest()
	at := s.place(d)
	switch {
	case at.first == of && (at.second == nil || r.State.Ended()):
		return true, nil
	case at.first == of:
		known, err := s.Inspect(ctx, d)
		switch {
		case errors.Is(err, retrysafe.ErrUnreadable) || err == nil && len(known) == 0:
			return true, nil
		case err != nil:
			return false, err
		}
		place := r.FirstFence // where the listing goes on
		*r = known[0]
		r.FirstFence, r.Result.Meta, r.Result.Body, r.Steps = place, nil, nil, nil
		return state == 0 || r.State == state, nil
	case at.second != of || s.stage == OldDecides:
		return false, nil
	}
	known, err := at.first.states(ctx, d)
	endedHere := state != 0 && r.State.Ended() && r.KeyLeft > 0
	return len(known) == 0 || endedHere && !known[0].State.Ended(), err
}

// newestOf returns the pages whose next record is the newest; nil if no shard has more down to the fence oldest. It
// reads on in a shard only while a newer record may come there than the others have: during a move one store shows most
// records of the other, and all of that would be read to find one that it does not show.
func newestOf(ctx context.Context, all []*pages, oldest int64) (*pages, error) {
	for {
		var newest *pages
		for _, one := range all {
			if (len(one.page) > 0 || !one.ended) && (newest == nil || one.newest() > newest.newest()) {
				newest = one
			}
		}
		switch {
		case newest == nil || newest.newest() < oldest:
			return nil, nil
		case len(newest.page) > 0:
			return newest, nil
		}
		if err := newest.fill(ctx); err != nil {
			return nil, newest.of.explain(err)
		}
	}
}

// newest is the FirstFence of the next record, or what it cannot exceed if that was not read yet.
func (l *pages) newest() int64 {
	if len(l.page) > 0 {
		return l.page[0].FirstFence
	}
	return l.next.Before - 1
}

// fill reads the next page.
func (l *pages) fill(ctx context.Context) error {
	page, err := l.read(ctx, l.next)
	switch {
	case errors.Is(err, retrysafe.ErrUnreadable):
		l.unread = err
	case err != nil:
		return err
	}
	l.ended = len(page) < l.next.Limit
	for _, r := range page {
		l.next.Before = r.FirstFence
		show, err := l.shown(ctx, &r)
		switch {
		case errors.Is(err, retrysafe.ErrUnreadable):
			l.unread = err
		case err != nil:
			return err
		case show:
			l.page = append(l.page, r)
		}
	}
	return nil
}
