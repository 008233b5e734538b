package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// change is what operations under a lease have in common. A change that touched no row looks why: it may have happened
// before, and its answer was lost.
type change struct {
	turn
	lease retrysafe.Lease

	made    bool    // by the last turn
	looking bool    // in this turn
	found   *record // by the last turn
}

func newChange(l retrysafe.Lease) change { return change{turn: newTurn(l.Key), lease: l} }

// row is that of a statement that needs no more than the lease; while looking it is the key alone.
func (c *change) row() []any {
	if c.looking {
		return []any{c.key()}
	}
	return []any{c.key(), (*uuid)(&c.lease.Owner), (*number)(&c.lease.Fence)}
}

// look is told what is known of the key.
func (c *change) look(r *record) { c.found = r }

// settleBy ends a change that was made, or looks why it was not; judge says what that means.
func (c *change) settleBy(judge func(r *record) error) bool {
	switch {
	case c.made:
		return true
	case !c.looking:
		c.looking = true
		return false
	}
	if c.found != nil && c.found.Expired(c.found.now) {
		c.found = nil
	}
	c.err = judge(c.found)
	return true
}

// completion is one call of Complete.
type completion struct {
	change
	values completionValues
}

// completionValues are what complete.sql takes beside the lease.
type completionValues struct {
	state, code number
	omitted     boolean
	keep        storekit.Keep
	meta, body  binary
}

func newCompletion(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) *completion {
	return &completion{newChange(l), completionValues{
		number(r.State()), number(r.Code), boolean(r.Omitted), storekit.NewKeep(keep), r.Meta, r.Body,
	}}
}

// Complete saves the result and ends the attempt. When this lease has already completed, the first result stays.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has released it.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	if err := s.do(ctx, newCompletion(l, r, keep)); err != nil {
		return fmt.Errorf("complete %s: %w", l.Key, err)
	}
	return nil
}

func (c *completion) join(b *batch) bool {
	c.made, c.found = false, nil
	if c.looking {
		return b.see(c)
	}
	return b.completions.add(c)
}

func (c *completion) settle() bool {
	return c.settleBy(func(r *record) error {
		if r != nil && r.State.Ended() && r.ClaimedUnder(c.lease) {
			return nil
		}
		return retrysafe.ErrLeaseLost
	})
}

func (c *completion) row() []any {
	row := c.change.row()
	if c.looking {
		return row
	}
	v := &c.values
	return append(row, &v.state, &v.code, &v.omitted, (*number)(&v.keep.Replay), (*number)(&v.keep.Key), (*number)(&v.keep.Audit), &v.meta, &v.body)
}

// maker is told that its change has touched its row.
type maker interface {
	operation
	setMade()
}

func (c *change) setMade() { c.made = true }

// eachMade reads what the statements of changes return: the keys whose rows they have touched, and nothing of interest.
func eachMade[T maker](rows pgx.Rows, g group[T]) error {
	defer rows.Close()
	var k pgtype.UUID
	for rows.Next() {
		if err := rows.Scan(&k, nil); err != nil {
			return err
		}
		op, err := g.find(k.Bytes)
		if err != nil {
			return err
		}
		op.setMade()
	}
	return rows.Err()
}
