package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// List returns p.Limit records, the newest first, without Meta, Body and steps. States have an index, which sweeps keep:
// see Find. With a scope to select it may read all that are newer than p.Before.
func (s *Store) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	found, err := s.search(ctx, retrysafe.FindParams{ListParams: p})
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return found, nil
}

// Find returns p.Limit of the records that p selects, the newest first, without Meta, Body and steps. It uses an index
// for a tag, or else for an ID, or else for a state other than Succeeded, and for both ages. A search by anything else reads
// the records from the newest on until it has found so many, and fails after [Options.Timeout].
//
// Sweep keeps the index of states. A search reads all records that are newer than the last sweeps: all there are, if
// there was none.
func (s *Store) Find(ctx context.Context, p retrysafe.FindParams) ([]retrysafe.Record, error) {
	found, err := s.search(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("find: %w", err)
	}
	return found, nil
}

func (s *Store) search(ctx context.Context, p retrysafe.FindParams) (found []retrysafe.Record, err error) {
	list := storekit.ListParams(p.ListParams)
	var scope any // NULL: all
	if p.Scope != nil {
		scope = []byte(*p.Scope)
	}
	text := s.sql.searchAll
	args := []any{
		list.Before, int16(p.State), scope, list.Limit, p.MinAge.Microseconds(),
		storekit.Micros(cmp.Or(p.MaxAge, math.MaxInt64)), []byte(p.ScopePrefix),
	}
	switch {
	case p.Tag != "":
		text, args = s.sql.searchByTag, append(args, []byte(p.Tag), []byte(p.ID))
	case p.ID != "":
		text, args = s.sql.searchByID, append(args, []byte(p.ID))
	case p.State != 0 && p.State != retrysafe.Succeeded:
		text = s.sql.searchByState
	}
	b := new(pgx.Batch)
	b.Queue(s.sql.searchSettings, strconv.FormatInt(s.options.Timeout.Milliseconds(), 10))
	b.Queue(text, args...).Query(func(rows pgx.Rows) error {
		found, err = readShown(rows)
		return err
	})
	err = s.readCommitted(ctx, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
	if sqlState(err) == queryCanceled && ctx.Err() == nil {
		return nil, fmt.Errorf("the search has read records for %v and not come to an end: give a tag, an ID or a shorter "+
			"age: %w", s.options.Timeout, err)
	}
	if err != nil {
		return nil, explain(err)
	}
	return found, nil
}
