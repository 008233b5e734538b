package mysqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

const (
	// blockSize is how many records a block has. A search by scope reads one row for each block, and the records of those
	// that have the scope.
	blockSize = 1000
	// reviewed is how many blocks a pass compares with their records at a time.
	reviewed = 10
	// settled is how old a record is, in microseconds, when a sweep puts it into a block: by then claims of that time have
	// written their row, or failed, and most have succeeded.
	settled = 60_000_000
	// indexTime bounds what a sweep spends on that, but for one part of each kind: a server may take as long for every
	// statement. indexPause is how long a process then leaves it.
	indexTime  = 2 * time.Second
	indexPause = 20 * time.Second
	// clockBack is for how many microseconds before the present records are looked at again if the clock was set back.
	clockBack = 600_000_000
)

// What records that have not succeeded have in the table of tags.
const unfinishedTag, failedTag = "=unfinished", "=failed"

// progress is how far sweeps have come. Times are first fences.
type progress struct{ indexed, noted, again, review, now int64 }

func (s *Store) progress(ctx context.Context, c *conn) (p progress, err error) {
	err = s.query(ctx, c, s.sql.progress, nil, func(row *sql.Rows) error {
		var name string
		var value int64
		err := row.Scan(&name, &value, &p.now)
		switch name {
		case "indexed":
			p.indexed = value
		case "noted":
			p.noted = value
		case "again":
			p.again = value
		case "review":
			p.review = value
		}
		return err
	})
	return p, err
}

// indexRecords has searches find records by state and by scope without reading all. It looks at each record once, after
// which the record's completion changes nothing here; and at some again in each pass, so that what was missed is found:
// the clock may have been set back, and programs of earlier versions run records again. The caller has the lock of sweeps.
func (s *Store) indexRecords(ctx context.Context, c *conn) error {
	began := time.Now()
	if began.Sub(s.sweeper.indexed) < indexPause {
		return nil
	}
	p, err := s.progress(ctx, c)
	if err != nil {
		return err
	}
	if p.noted > p.now {
		p.indexed = min(p.indexed, p.now-clockBack)
		if err := s.exec(ctx, c, s.sql.trimBlocks, rows{{max(p.indexed, 0)}}); err != nil {
			return err
		}
	}
	if err := s.exec(ctx, c, s.sql.setProgress, rows{{"noted", p.now}, {"indexed", p.indexed}}); err != nil {
		return err
	}
	inTime := func() bool { return time.Since(began) < s.sweeper.indexTime }
	for more := true; more; more = more && inTime() {
		if more, err = s.addToBlock(ctx, c, &p, blockSize); err != nil {
			return err
		}
	}
	for last, more := int64(0), true; more; more = more && inTime() {
		if last, more, err = s.indexEnded(ctx, c, last); err != nil {
			return err
		}
	}
	if err := s.indexAgain(ctx, c, &p); err != nil {
		return err
	}
	// The oldest blocks are those whose records go, all but the first block itself.
	for more := true; more; {
		dropped, _, err := s.review(ctx, c, 0, p.indexed)
		if err != nil {
			return err
		}
		more = dropped == reviewed-1 && inTime()
	}
	if _, p.review, err = s.review(ctx, c, p.review, p.indexed); err != nil {
		return err
	}
	s.sweeper.indexed = began
	return s.exec(ctx, c, s.sql.setProgress, rows{{"review", p.review}, {"again", p.again}})
}

// looked is a record that a sweep looks at.
type looked struct {
	k          retrysafe.Digest
	firstFence int64
	state      retrysafe.State
	scope      string
}

// next returns up to limit records from a first fence on, all that have the first fence of the last one, and where it
// ends. It sees records that are not committed yet: they may be.
func (s *Store) next(ctx context.Context, c *conn, from, below int64, limit int) (all []looked, to int64, more bool, err error) {
	err = s.uncommitted(ctx, c, func() error {
		var n int
		where := fmt.Sprintf("first_fence >= %d AND first_fence < %d", from, below)
		text := s.sql.nextRecords.filled("{{where}}", where).literal(rows{{limit}})
		if err := c.QueryRowContext(ctx, text).Scan(&n, &to); err != nil {
			return err
		}
		if more = n == limit; more {
			to++
		} else {
			to = below
		}
		all, err = s.between(ctx, c, from, to)
		return err
	})
	return all, to, more, err
}

// uncommitted runs f in a transaction that sees what others have not committed, and waits for none of them.
func (s *Store) uncommitted(ctx context.Context, c *conn, f func() error) error {
	if _, err := c.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"); err != nil {
		return err
	}
	return s.inTransactionOn(ctx, c, f)
}

func (s *Store) between(ctx context.Context, c *conn, from, to int64) (all []looked, err error) {
	where := fmt.Sprintf("first_fence >= %d AND first_fence < %d", from, to)
	err = s.query(ctx, c, s.sql.recordsBetween.filled("{{where}}", where), nil, func(row *sql.Rows) error {
		var k, scope sql.RawBytes
		var state uint8
		var l looked
		err := row.Scan(&k, &l.firstFence, &state, &scope)
		copy(l.k[:], k)
		l.state, l.scope = retrysafe.State(state), string(scope)
		all = append(all, l)
		return err
	})
	return all, err
}

// addToBlock puts the next records into the last block, or into a new one if that has size records, and gives those that
// have not succeeded a row in the table of tags. It reports whether there may be more.
func (s *Store) addToBlock(ctx context.Context, c *conn, p *progress, size int) (more bool, err error) {
	began, below := time.Now(), p.now-settled
	if p.indexed >= below {
		return false, nil
	}
	var block int64
	var records int
	if err := c.QueryRowContext(ctx, s.sql.lastBlock.literal(nil)).Scan(&block, &records); err != nil {
		return false, err
	}
	isNew := records >= size
	if isNew {
		records = 0
	}
	all, to, more, err := s.next(ctx, c, p.indexed, below, size-records)
	if err != nil {
		return false, err
	}
	states, err := s.statesOf(ctx, c, all, p.indexed, to)
	if err != nil {
		return false, err
	}
	scopes := map[string]bool{}
	for i, l := range all {
		if scopes[l.scope] = true; isNew && (i == 0 || l.firstFence < block) {
			block = l.firstFence
		}
	}
	err = s.inTransactionOn(ctx, c, func() error {
		if len(all) > 0 {
			if err := s.exec(ctx, c, s.sql.addToBlock, rows{{block, len(all), listOf(scopes)}}); err != nil {
				return err
			}
		}
		if len(states) > 0 {
			if err := s.exec(ctx, c, s.sql.noteStates, states); err != nil {
				return err
			}
		}
		return s.exec(ctx, c, s.sql.setProgress, rows{{"indexed", to}})
	})
	p.indexed = to
	storekit.Rest(ctx, time.Since(began))
	return more, err
}

// listOf is how a block names scopes.
func listOf(scopes map[string]bool) []byte {
	list := []byte{0}
	for _, scope := range slices.Sorted(maps.Keys(scopes)) {
		list = append(append(list, scope...), 0)
	}
	return list
}

// statesOf are the rows for the table of tags of records that have not succeeded, of these in a range of first fences. What
// another transaction has not committed has not happened.
func (s *Store) statesOf(ctx context.Context, c *conn, all []looked, from, to int64) (states rows, err error) {
	committed, err := s.between(ctx, c, from, to)
	if err != nil {
		return nil, err
	}
	type of struct {
		k          retrysafe.Digest
		firstFence int64
	}
	ended := map[of]retrysafe.State{}
	for _, l := range committed {
		if l.state.Ended() {
			ended[of{l.k, l.firstFence}] = l.state
		}
	}
	for _, l := range all {
		switch ended[of{l.k, l.firstFence}] {
		case retrysafe.Succeeded:
		case retrysafe.Failed:
			states = append(states, []any{l.k[:], l.firstFence, failedTag})
		default:
			states = append(states, []any{l.k[:], l.firstFence, unfinishedTag})
		}
	}
	return states, nil
}

// indexAgain looks at the states of some records that were looked at before.
func (s *Store) indexAgain(ctx context.Context, c *conn, p *progress) error {
	all, to, more, err := s.next(ctx, c, p.again, p.indexed, blockSize)
	if err != nil {
		return err
	}
	states, err := s.statesOf(ctx, c, all, p.again, to)
	if err != nil {
		return err
	}
	if p.again = to; !more {
		p.again = 0
	}
	if len(states) == 0 {
		return nil
	}
	return s.exec(ctx, c, s.sql.noteStates, states)
}

// indexEnded looks at the next records after a first fence that were unfinished, and takes the rows of those that have
// ended. Rows of records that are gone are left to sweepKept.
func (s *Store) indexEnded(ctx context.Context, c *conn, after int64) (last int64, more bool, err error) {
	var ended, states, over rows
	n := 0
	text := s.sql.nextUnfinished.filled("{{after}}", fmt.Sprint(after))
	err = s.query(ctx, c, text, rows{{piece}}, func(row *sql.Rows) error {
		var k []byte
		var state, older sql.NullInt64
		n++
		if err := row.Scan(&k, &last, &state, &older); err != nil {
			return err
		}
		switch {
		case state.Int64 > int64(retrysafe.Released):
			ended = append(ended, []any{k, last})
		case older.Valid:
			over = append(over, []any{k, last, unfinishedTag})
			if older.Int64 == int64(retrysafe.Failed) {
				states = append(states, []any{k, last, failedTag})
			}
		}
		return nil
	})
	if err != nil || len(ended)+len(over) == 0 {
		return last, n == piece, err
	}
	return last, n == piece, s.inTransactionOn(ctx, c, func() error {
		if len(ended) > 0 {
			err := s.query(ctx, c, s.sql.lockEnded, ended, func(row *sql.Rows) error {
				var k []byte
				var firstFence, state int64
				err := row.Scan(&k, &firstFence, &state)
				over = append(over, []any{k, firstFence, unfinishedTag})
				if state == int64(retrysafe.Failed) {
					states = append(states, []any{k, firstFence, failedTag})
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		if len(states) > 0 {
			if err := s.exec(ctx, c, s.sql.noteStates, states); err != nil {
				return err
			}
		}
		if len(over) == 0 {
			return nil
		}
		return s.exec(ctx, c, s.sql.dropState, over)
	})
}

// review compares the next blocks with their records: it drops the scopes that no record has any more, adds those that were
// missed, and drops blocks without records, so that the ones before them reach as far as they did. It returns how many it
// has dropped, and where the next review begins.
func (s *Store) review(ctx context.Context, c *conn, from, indexed int64) (dropped int, next int64, err error) {
	type block struct {
		first, below int64
		scopes       []byte
	}
	var all []block
	err = s.query(ctx, c, s.sql.nextBlocks.filled("{{from}}", fmt.Sprint(from)), rows{{reviewed}}, func(row *sql.Rows) error {
		b := block{}
		var below sql.NullInt64
		err := row.Scan(&b.first, &below, &b.scopes)
		if b.below = below.Int64; !below.Valid {
			b.below = indexed
		}
		all, next = append(all, b), b.first+1
		return err
	})
	if len(all) < reviewed {
		next = 0
	}
	for _, b := range all {
		if err != nil {
			break
		}
		// A claim or a deletion may not be committed yet.
		var held, committed []looked
		err = s.uncommitted(ctx, c, func() error {
			held, err = s.between(ctx, c, b.first, b.below)
			return err
		})
		if err == nil {
			committed, err = s.between(ctx, c, b.first, b.below)
		}
		if err != nil {
			break
		}
		held = append(held, committed...)
		scopes := map[string]bool{}
		for _, l := range held {
			scopes[l.scope] = true
		}
		switch list := listOf(scopes); {
		case len(held) == 0 && b.first > 0:
			dropped++
			err = s.exec(ctx, c, s.sql.dropBlock, rows{{b.first}})
		case !bytes.Equal(list, b.scopes):
			err = s.exec(ctx, c, s.sql.writeBlock, rows{{b.first, list}})
		}
	}
	return dropped, next, err
}

// inTransactionOn runs f in a transaction of a connection. If f fails, the owner of the connection rolls it back.
func (s *Store) inTransactionOn(ctx context.Context, c *conn, f func() error) error {
	if _, err := c.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	_, err := c.ExecContext(ctx, "COMMIT")
	return err
}

// findInBlocks returns the records of a search by scope that are in blocks.
func (s *Store) findInBlocks(ctx context.Context, c *conn, p retrysafe.FindParams) (found []retrysafe.Record, err error) {
	needle := []byte("\x00" + p.ScopePrefix)
	if p.Scope != nil {
		needle = []byte("\x00" + *p.Scope + "\x00")
	}
	const together = 16
	for before := p.Before; ; {
		var blocks []int64
		text := s.sql.findBlocks.filled("{{before}}", fmt.Sprint(before)).filled("{{limit}}", fmt.Sprint(together))
		err := s.query(ctx, c, text, rows{{needle}}, func(row *sql.Rows) error {
			var first int64
			err := row.Scan(&first)
			blocks = append(blocks, first)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, first := range blocks {
			var below sql.NullInt64
			if err := c.QueryRowContext(ctx, s.sql.endOfBlock.literal(rows{{first}})).Scan(&below); err != nil {
				return nil, err
			}
			if !below.Valid {
				below.Int64 = p.Before
			}
			b := newSearch(p)
			b.where += fmt.Sprintf(" AND c.first_fence >= %d AND c.first_fence < %d", first, below.Int64)
			more, err := s.show(ctx, c, s.filled(s.sql.list, b), nil)
			if found = append(found, more...); err != nil || len(found) >= p.Limit {
				return page(found, p.Limit), err
			}
			before = first
		}
		if len(blocks) < together {
			return found, nil
		}
	}
}

// page is the first records of those, which are in order, and all that have the first fence of the last one.
func page(all []retrysafe.Record, limit int) []retrysafe.Record {
	n := min(limit, len(all))
	for n > 0 && n < len(all) && all[n].FirstFence == all[n-1].FirstFence {
		n++
	}
	return all[:n]
}
