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

// List returns p.Limit records, the newest first, without Meta, Body and steps. States and scopes have indexes, which
// sweeps keep: see Find.
func (s *Store) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	found, err := s.search(ctx, retrysafe.FindParams{ListParams: p})
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return found, nil
}

// Find returns p.Limit of the records that p selects, the newest first, without Meta, Body and steps. It uses an index
// for a tag, or else for an ID, or else for a state other than Succeeded, or else for a scope or how it begins, and for both
// ages. A search by anything else reads the records from the newest on until it has found so many, and fails after
// [Options.Timeout].
//
// Sweep keeps the indexes of states and scopes. A search by these reads all records that are newer than the last sweeps:
// all there are, if there was none.
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
	var needle []byte // where the scopes of a block are searched for it
	switch {
	case p.Tag != "":
		text, args = s.sql.searchByTag, append(args, []byte(p.Tag), []byte(p.ID))
	case p.ID != "":
		text, args = s.sql.searchByID, append(args, []byte(p.ID))
	case p.State != 0 && p.State != retrysafe.Succeeded:
		text = s.sql.searchByState
	case p.Scope != nil || p.ScopePrefix != "":
		if needle = []byte("\x00" + p.ScopePrefix); p.Scope != nil {
			needle = []byte("\x00" + *p.Scope + "\x00")
		}
	}
	err = s.readCommitted(ctx, func(tx pgx.Tx) error {
		b := new(pgx.Batch)
		b.Queue(s.sql.searchSettings, strconv.FormatInt(s.options.Timeout.Milliseconds(), 10))
		if needle != nil {
			return s.searchByScope(ctx, tx, b, args, list.Limit, needle, &found)
		}
		b.Queue(text, args...).Query(func(rows pgx.Rows) error {
			found, err = readShown(rows)
			return err
		})
		return tx.SendBatch(ctx, b).Close()
	})
	if sqlState(err) == queryCanceled && ctx.Err() == nil {
		return nil, fmt.Errorf("the search has read records for %v and not come to an end: give a tag, an ID or a shorter "+
			"age: %w", s.options.Timeout, err)
	}
	if err != nil {
		return nil, explain(err)
	}
	return found, nil
}

// searchByScope reads the records that no sweep has put into blocks, and then those of the blocks that have the scope.
// What is committed between the two statements belongs to the first ones, and is left to the next search.
func (s *Store) searchByScope(ctx context.Context, tx pgx.Tx, b *pgx.Batch, args []any, limit int, needle []byte,
	found *[]retrysafe.Record,
) error {
	var below int64
	b.Queue(s.sql.scopedBelow).QueryRow(func(row pgx.Row) error { return row.Scan(&below) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	for _, v := range []struct {
		text string
		args []any
	}{{s.sql.searchRecent, append(args, below)}, {s.sql.searchByScope, append(args, below, needle)}} {
		v.args[3] = limit - len(*found)
		rows, err := tx.Query(ctx, v.text, v.args...)
		if err != nil {
			return err
		}
		more, err := readShown(rows)
		if *found = append(*found, more...); err != nil || len(*found) >= limit {
			return err
		}
	}
	return nil
}
