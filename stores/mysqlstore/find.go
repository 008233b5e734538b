package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Find returns p.Limit of the records that p selects, the newest first, without Meta, Body and steps. It reads an
// index of IDs, or else of tags, or else the records in the order of their arrival, until it has found enough; what
// else p names it compares with each record that it reads.
//
// For MinAge it begins with records that arrived a day after that age. It misses one whose key had a fence that was
// further ahead of the server's clock, because that was set back by more than a day.
func (s *Store) Find(ctx context.Context, p retrysafe.FindParams) (found []retrysafe.Record, err error) {
	p.ListParams = storekit.ListParams(p.ListParams)
	b := newSearch(p)
	err = s.read(ctx, func(c *conn) error {
		found, err = s.find(ctx, c, b, p.Limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find: %w", explain(err))
	}
	return found, nil
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
const skew = 24 * time.Hour

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
