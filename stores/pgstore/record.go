package pgstore

import (
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// instant is microseconds since 1970 on the server's clock.
type instant = storekit.Instant

// record is a row of claims or of older, with what find.sql and the like select beside it.
type record struct {
	storekit.Record
	digest              retrysafe.Digest
	waiters             bool
	saved               int32 // how many steps there are
	stepNames, stepData [][]byte
	now                 instant // when it was read
	began               instant // when the transaction began that has read it; only from find.sql
	tags                retrysafe.Tags
	scope, id           []byte // only from inspect.sql and search.sql
}

// scan reads a row of find.sql, and with more, of statements that select more.
func (r *record) scan(row pgx.CollectableRow, more ...any) error {
	var k, owner pgtype.UUID
	var state int16
	var fingerprint, tags []byte
	to := []any{
		&k, &owner, &r.Fence, &r.FirstFence, &r.ClaimedAt, &r.EndsAt, &r.Keep.Replay, &r.Keep.Key, &r.Keep.Audit, &r.Attempt,
		&r.Code, &state, &r.Omitted, &r.waiters, &r.saved, &fingerprint, &r.Meta, &r.Body, &r.stepNames, &r.stepData, &r.now,
		&tags,
	}
	if err := row.Scan(append(to, more...)...); err != nil {
		return err
	}
	r.digest, r.Owner = k.Bytes, owner.Bytes
	r.State, r.Fingerprint = retrysafe.State(state), retrysafe.Fingerprint(fingerprint)
	r.tags = tagsOf(tags)
	return nil
}

// tagsOf reads a column of tags. What cannot be tags was written by hand, and must not make the key useless.
func tagsOf(column []byte) retrysafe.Tags {
	tags, _ := retrysafe.ParseTags(string(column))
	return tags
}

// clone returns a copy that shares no answer with r.
func (r *record) clone() *record {
	c := *r
	c.Meta, c.Body = slices.Clone(r.Meta), slices.Clone(r.Body)
	c.stepData = make([][]byte, len(r.stepData))
	for i, d := range r.stepData {
		c.stepData[i] = slices.Clone(d)
	}
	return &c
}

// view is the record as callers see it.
func (r *record) view(k retrysafe.Key) retrysafe.Record {
	v := r.View(k, r.now)
	v.Steps, v.Tags = r.steps(), r.tags
	return v
}

func (r *record) steps() []retrysafe.StepResult {
	var steps []retrysafe.StepResult
	for i, name := range r.stepNames {
		steps = append(steps, retrysafe.StepResult{Name: string(name), Data: r.stepData[i]})
	}
	return steps
}
