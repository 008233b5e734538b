package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// List implements Keys. A store that is a Finder has an index for every Query. Another one lists by state and scope;
// for anything else each of its records is read.
func (l Local) List(ctx context.Context, q Query) (Page, error) {
	p, err := q.params()
	if err != nil {
		return Page{}, err
	}
	page := Page{Keys: []Record{}, SelectedBy: q.selectors()}
	var found []retrysafe.Record
	inPages := true
	if q.Digest != "" || q.ID != "" && q.Scope != nil {
		inPages = false
		found, err = l.inspectOne(ctx, q)
	} else if found, err = l.indexed(ctx, p); errors.Is(err, errors.ErrUnsupported) {
		if q.ID == "" && q.Tag == "" && q.ScopePrefix == "" && q.MaxAge == 0 {
			found, err = l.Store.List(ctx, p.ListParams)
		} else {
			found, page.Read, err = l.newest(ctx, p)
		}
	}
	switch {
	case inPages && errors.Is(err, retrysafe.ErrUnreadable), isPartly(found, err):
		page.Unread = err.Error()
	case err != nil:
		return Page{}, err
	}
	if inPages && len(found) >= p.Limit {
		page.Next = found[len(found)-1].FirstFence
	}
	_, keepsSightings := retrysafe.As[retrysafe.SightingKeeper](l.Store)
	for _, r := range found {
		if q.State != All && q.State != stateOf(r) || !p.Selects(r) {
			continue
		}
		if q.Sightings && keepsSightings && r.Sightings == nil {
			if r.Sightings, err = l.sightings(ctx, r); err != nil {
				return Page{}, err
			}
		}
		page.Keys = append(page.Keys, l.withUpstreamKey(summary(r), r))
	}
	if q.Count {
		page.Counts, err = l.count(ctx)
		switch {
		case errors.Is(err, retrysafe.ErrUnreadable):
			page.Unread = cmp.Or(page.Unread, err.Error())
		case err != nil:
			page.Uncounted = err.Error()
		}
	}
	return page, nil
}

// indexed returns errors.ErrUnsupported if the store, or one of its shards, is no Finder.
func (l Local) indexed(ctx context.Context, p retrysafe.FindParams) ([]retrysafe.Record, error) {
	finder, ok := retrysafe.As[retrysafe.Finder](l.Store)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return finder.Find(ctx, p)
}

// params returns what the store is asked for.
func (q Query) params() (retrysafe.FindParams, error) {
	stored, ok := storedStates[q.State]
	if !ok {
		return retrysafe.FindParams{}, &Error{Code: CodeInvalid, Message: fmt.Sprintf("unknown state %q", q.State)}
	}
	limit := pageSize
	if q.Limit > 0 {
		limit = min(q.Limit, pageSize)
	}
	return retrysafe.FindParams{
		ListParams: retrysafe.ListParams{State: stored, Scope: q.Scope, Before: q.Before, Limit: limit},
		Tag:        q.Tag, ID: q.ID, ScopePrefix: q.ScopePrefix, MinAge: q.MinAge, MaxAge: q.MaxAge,
	}, nil
}

// inspectOne returns the records of the only key that can be meant: there are few, and all of them come at once.
func (l Local) inspectOne(ctx context.Context, q Query) ([]retrysafe.Record, error) {
	if q.Digest == "" {
		return l.kept(ctx, retrysafe.Key{Scope: *q.Scope, ID: q.ID}.Digest())
	}
	digest, err := ParseDigest(q.Digest)
	if err != nil {
		return nil, err
	}
	return l.kept(ctx, digest)
}

// sightings returns those of a record, unless the record has gone meanwhile.
func (l Local) sightings(ctx context.Context, listed retrysafe.Record) ([]retrysafe.Sighting, error) {
	found, err := l.kept(ctx, listed.Key.Digest())
	for _, r := range found {
		if r.FirstFence == listed.FirstFence {
			return r.Sightings, nil
		}
	}
	return nil, err
}

// newest reads every record, and returns the newest p.Limit of those that p selects.
func (l Local) newest(ctx context.Context, p retrysafe.FindParams) (found []retrysafe.Record, read int, err error) {
	cut := func() {
		slices.SortStableFunc(found, func(a, b retrysafe.Record) int { return cmp.Compare(b.FirstFence, a.FirstFence) })
		n := min(p.Limit, len(found))
		for n > 0 && n < len(found) && found[n].FirstFence == found[n-1].FirstFence { // as ListParams.Limit says
			n++
		}
		found = slices.Delete(found, n, len(found))
	}
	read, err = l.each(ctx, p, func(r retrysafe.Record) error {
		if found = append(found, r); len(found) >= 2*pageSize+p.Limit {
			cut()
		}
		return nil
	})
	cut()
	return found, read, err
}

// each calls visit for each record that p selects. It returns how many records it has read for that, which is 0 if the
// store has an index. If the store has left out what it cannot read, the error comes last.
func (l Local) each(ctx context.Context, p retrysafe.FindParams, visit func(retrysafe.Record) error) (read int, err error) {
	all := p
	var unread error
	for p.Limit = pageSize; ; {
		found, err := l.indexed(ctx, p)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return l.walk(ctx, all, visit)
		case errors.Is(err, retrysafe.ErrUnreadable):
			unread = err
		case err != nil:
			return 0, err
		}
		for _, r := range found {
			p.Before = r.FirstFence
			if err := visit(r); err != nil {
				return 0, err
			}
		}
		if len(found) < p.Limit {
			return 0, unread
		}
	}
}

// walk is each for a store without an index.
func (l Local) walk(ctx context.Context, p retrysafe.FindParams, visit func(retrysafe.Record) error) (read int, err error) {
	err = retrysafe.Walk(ctx, l.Store, func(r retrysafe.Record) error {
		if read++; read%pageSize == 0 && l.Progress != nil {
			l.Progress(read)
		}
		if !p.Selects(r) {
			return nil
		}
		return visit(r)
	})
	return read, err
}
