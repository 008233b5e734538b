package mysqlstore

import (
	"cmp"
	"database/sql"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// instant is microseconds since 1970 on the server's clock.
type instant = storekit.Instant

// minute is the unit of sweep_at.
const minute = 60_000_000

// record is a row of claims or of older, with what find.sql and the like select beside it.
type record struct {
	storekit.Record
	digest    retrysafe.Digest
	sweepAt   int64
	saved     int64 // how many steps there are
	steps     []savedStep
	now       instant // when the statement began that has read it
	late      instant // when the row was locked; only from lock.sql
	scope, id []byte  // only from inspect.sql and list.sql
}

type savedStep struct {
	n int64
	retrysafe.StepResult
}

// scan reads a row of lock.sql, and with more, of statements that select more.
func (r *record) scan(row *sql.Rows, more ...any) error {
	var k, owner, fingerprint, tags sql.RawBytes
	var state uint8
	to := []any{
		&k, &owner, &r.Fence, &r.FirstFence, &r.ClaimedAt, &r.EndsAt, &r.Keep.Replay, &r.Keep.Key, &r.Keep.Audit,
		&r.sweepAt, &r.Attempt, &r.Code, &state, &r.Omitted, &r.saved, &fingerprint, &tags, &r.now, &r.late,
	}
	if err := row.Scan(append(to, more...)...); err != nil {
		return err
	}
	copy(r.digest[:], k)
	copy(r.Owner[:], owner)
	r.State, r.Fingerprint = retrysafe.State(state), retrysafe.Fingerprint(fingerprint)
	r.Tags, _ = retrysafe.ParseTags(string(tags)) // what others have written there keeps no key from being claimed
	return nil
}

// clone returns a copy that shares no answer with r.
func (r *record) clone() *record {
	c := *r
	c.Meta, c.Body = slices.Clone(r.Meta), slices.Clone(r.Body)
	c.steps = slices.Clone(r.steps)
	for i := range c.steps {
		c.steps[i].StepResult = c.steps[i].Clone()
	}
	return &c
}

// view is the record as callers see it.
func (r *record) view(k retrysafe.Key) retrysafe.Record {
	v := r.View(k, r.now)
	v.Steps = r.inOrder()
	return v
}

func (r *record) inOrder() []retrysafe.StepResult {
	slices.SortFunc(r.steps, func(a, b savedStep) int { return cmp.Compare(a.n, b.n) })
	var steps []retrysafe.StepResult
	for _, s := range r.steps {
		steps = append(steps, s.StepResult)
	}
	return steps
}

// row is the record as write.sql takes it.
func (r *record) row() []any {
	return []any{
		r.digest[:], r.Owner[:], r.Fence, r.FirstFence, r.ClaimedAt, r.EndsAt, r.Keep.Replay, r.Keep.Key, r.Keep.Audit,
		r.sweepAt, r.Attempt, r.Code, int64(r.State), number(r.Omitted), r.saved, []byte(r.Fingerprint),
	}
}
