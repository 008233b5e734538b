package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Find returns p.Limit of the records that p selects, the newest first, without Meta, Body and steps. It reads an
// index of IDs, or else of tags, or else of states other than Succeeded, or else of scopes, or else the records in the
// order of their arrival, until it has found enough; what else p names it compares with each record that it reads.
//
// Sweeps keep the indexes of states and scopes. A search by these reads all records that no sweep has looked at yet: those
// of the last minutes, or all there are if there was no sweep.
//
// For MinAge it begins with records that arrived an hour after that age. It misses one whose key had a fence that was
// further ahead of the server's clock, because that was set back by more than an hour.
func (s *Store) Find(ctx context.Context, p retrysafe.FindParams) (found []retrysafe.Record, err error) {
	p.ListParams = storekit.ListParams(p.ListParams)
	err = s.read(ctx, func(c *conn) error {
		found, err = s.search(ctx, c, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find: %w", explain(err))
	}
	return found, nil
}

// search reads the records that no sweep has looked at, if those before have an index for the search, and then those.
func (s *Store) search(ctx context.Context, c *conn, p retrysafe.FindParams) ([]retrysafe.Record, error) {
	byState := p.State != 0 && p.State != retrysafe.Succeeded
	if p.Tag != "" || p.ID != "" || !byState && p.Scope == nil && p.ScopePrefix == "" {
		return s.find(ctx, c, newSearch(p), p.Limit)
	}
	at, err := s.progress(ctx, c)
	if err != nil {
		return nil, err
	}
	b := newSearch(p)
	b.where += fmt.Sprintf(" AND c.first_fence >= %d", at.indexed)
	found, err := s.find(ctx, c, b, p.Limit)
	if err != nil || len(found) >= p.Limit {
		return found, err
	}
	p.Limit, p.Before = p.Limit-len(found), min(p.Before, at.indexed)
	find := s.findInBlocks
	if byState {
		find = s.findByState
	}
	more, err := find(ctx, c, p)
	return append(found, more...), err
}

// findByState returns records that a sweep has found unfinished or failed. One that was unfinished may have failed since,
// and has both rows for a moment.
func (s *Store) findByState(ctx context.Context, c *conn, p retrysafe.FindParams) ([]retrysafe.Record, error) {
	p.Tag = unfinishedTag
	found, err := s.find(ctx, c, newSearch(p), p.Limit)
	if err != nil || p.State != retrysafe.Failed {
		return found, err
	}
	p.Tag = failedTag
	failed, err := s.find(ctx, c, newSearch(p), p.Limit)
	found = append(found, failed...)
	slices.SortFunc(found, func(a, b retrysafe.Record) int {
		return cmp.Or(cmp.Compare(b.FirstFence, a.FirstFence), strings.Compare(a.Key.Scope, b.Key.Scope), strings.Compare(a.Key.ID, b.Key.ID))
	})
	return page(slices.CompactFunc(found, func(a, b retrysafe.Record) bool {
		return a.FirstFence == b.FirstFence && a.Key == b.Key
	}), p.Limit), err
}

// find returns a page: records whose first fence is that of the last one come with it.
func (s *Store) find(ctx context.Context, c *conn, b search, limit int) ([]retrysafe.Record, error) {
	var from int64
	text := s.filled(s.sql.listFrom, b).filled("{{offset}}", strconv.Itoa(limit-1)).literal(rows{{limit}})
	if err := c.QueryRowContext(ctx, text).Scan(&from); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	b.where += fmt.Sprintf(" AND %s.first_fence >= %d", b.index, from)
	return s.show(ctx, c, s.filled(s.sql.list, b), nil)
}

// search is what selects records.
type search struct {
	claims, older string // what they are read from, with the index
	index         string // the alias of the table with the index
	where         string
}

// skew is how far fences may be ahead of the clock.
const skew = time.Hour

func newSearch(p retrysafe.FindParams) search {
	b := search{
		claims: "{{claims}} c FORCE INDEX (first)", older: "{{older}} c FORCE INDEX (first)", index: "c", where: "TRUE",
	}
	and := func(isSet bool, condition string, values ...any) {
		if isSet {
			b.where += (&statement{parts: []string{" AND ", ""}, row: condition}).literal(rows{values})
		}
	}
	switch {
	case p.ID != "":
		b.claims, b.older = "{{claims}} c FORCE INDEX (id)", "{{older}} c FORCE INDEX (id)"
		and(true, "c.id = ?", p.ID)
		and(p.Tag != "", "EXISTS (SELECT 1 FROM {{tags}} t WHERE t.k = c.k AND t.first_fence = c.first_fence "+
			"AND t.tag = ?)", p.Tag)
	case p.Tag != "":
		const tagged = "{{tags}} t FORCE INDEX (tag) STRAIGHT_JOIN %s c FORCE INDEX (PRIMARY) " +
			"ON c.k = t.k AND c.first_fence = t.first_fence"
		b.claims, b.older, b.index = fmt.Sprintf(tagged, "{{claims}}"), fmt.Sprintf(tagged, "{{older}}"), "t"
		and(true, "t.tag = ?", p.Tag)
	}
	and(true, b.index+".first_fence < ?", p.Before)
	and(p.State != 0, "c.state = ?", int(p.State))
	if p.Scope != nil {
		and(true, "c.scope = ?", *p.Scope)
	}
	and(p.ScopePrefix != "", "LEFT(c.scope, ?) = ?", len(p.ScopePrefix), p.ScopePrefix)
	// A record's first fence is the time of its first claim, or ahead of that: never behind.
	youngest, oldest := storekit.Micros(p.MinAge), p.MaxAge.Microseconds()
	and(p.MinAge > 0, "c.claimed_at <= {{now}} - ?", youngest)
	and(p.MinAge > skew, b.index+".first_fence <= {{now}} - ?", youngest-storekit.Micros(skew))
	and(p.MaxAge != 0, "c.claimed_at >= {{now}} - ?", oldest)
	and(p.MaxAge != 0, b.index+".first_fence >= {{now}} - ?", oldest)
	return b
}

// filled fills a search into a statement.
func (s *Store) filled(st *statement, b search) *statement {
	for name, text := range map[string]string{
		"{{from_claims}}": b.claims, "{{from_older}}": b.older, "{{index}}": b.index, "{{where}}": b.where,
	} {
		st = st.filled(name, inDatabase(text, s.options.Database))
	}
	return st
}
