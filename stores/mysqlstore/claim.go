package mysqlstore

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Claim takes the key for one attempt, or reports who has it.
//
// A key that is likely to be new is inserted at once, and read only if a record is there. A key that is likely to be
// known is read first, which writes nothing and waits for no sync.
//
// It returns an error that is [retrysafe.ErrStoreFull] if the server has no room for a new key.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := newClaim(p)
	if err != nil {
		return retrysafe.Claim{}, fmt.Errorf("claim %s: %w", p.Key, err)
	}
	if !s.guess.Inserts(&p) {
		c.Step = stepFind
	}
	return storekit.DoClaim[operation](ctx, s.batcher, &s.guess, c, &c.Claim, func(err error) bool {
		n := errorNumber(err)
		return n == tableFull || n == diskFull
	})
}

// claim is one call of Claim.
type claim struct {
	call
	storekit.Claim
	lease  int64 // in microseconds
	keep   storekit.Keep
	taken  *record // what decide has made of the row; nil: it may not have it, or there is none
	absent bool    // decide has found no row
}

func newClaim(p retrysafe.ClaimParams) (*claim, error) {
	for what, n := range map[string]int{
		"the scope": len(p.Key.Scope), "the ID": len(p.Key.ID), "the fingerprint": len(p.Fingerprint),
	} {
		if n > retrysafe.MaxKeyBytes {
			return nil, fmt.Errorf("mysqlstore: %s has %d bytes, the limit is %d", what, n, retrysafe.MaxKeyBytes)
		}
	}
	c := &claim{
		call: newCall(p.Key, stepInsert), Claim: storekit.Claim{Params: p},
		lease: storekit.Micros(p.Lease), keep: storekit.NewKeep(p.Keep),
	}
	if tags := p.Tags.String(); tags != "" {
		c.tags = []byte(tags)
	}
	return c, nil
}

// insertRow is a row of insert.sql.
func (c *claim) insertRow() []any {
	p := &c.Params
	return []any{
		c.Digest[:], p.Owner[:], c.keep.Replay, c.keep.Key, c.keep.Audit,
		[]byte(p.Fingerprint), []byte(p.Key.Scope), []byte(p.Key.ID), c.lease,
	}
}

// insertedRecord is the record that insertRow makes.
func (c *claim) insertedRecord() *record {
	t := c.triedAt
	return &record{digest: c.Digest, now: t, Record: storekit.Record{
		Tags:  c.Params.Tags,
		State: retrysafe.Pending, Owner: c.Params.Owner, Fence: t, FirstFence: t, Attempt: 1,
		ClaimedAt: t, EndsAt: t + c.lease, Keep: c.keep, Fingerprint: c.Params.Fingerprint,
	}}
}

// decide takes a row that is there, if the claim may have it.
func (c *claim) decide(r *record, w *writes) {
	c.taken, c.absent = nil, r == nil
	if r == nil {
		return
	}
	switch {
	case r.Expired(r.now):
		if r.Audited(r.now) {
			w.archive = append(w.archive, []any{r.digest[:]})
		} else if r.saved > 0 {
			w.dropSteps = append(w.dropSteps, []any{r.digest[:], r.FirstFence})
		}
		r.Fence = max(r.Fence+1, r.late)
		r.FirstFence, r.ClaimedAt, r.Attempt, r.saved, r.Tags = r.Fence, r.late, 1, 0, c.Params.Tags
		if c.tags != nil {
			w.tags = append(w.tags, []any{r.digest[:], c.tags, r.FirstFence})
			w.tagged = append(w.tagged, []any{r.digest[:], r.FirstFence})
		}
	case r.Verdict(&c.Params, r.now) != retrysafe.Acquired:
		return
	case r.State != retrysafe.Pending || r.Owner != c.Params.Owner:
		r.Fence, r.Attempt = max(r.Fence+1, r.late), r.Attempt+1
	}
	r.State, r.Owner, r.Fingerprint, r.Keep = retrysafe.Pending, c.Params.Owner, c.Params.Fingerprint, c.keep
	r.EndsAt, r.Code, r.Omitted = r.late+c.lease, 0, false
	r.sweepAt = (r.EndsAt + r.Keep.Key) / minute
	w.change(r)
	c.taken = r
}

func (c *claim) Next() (more bool) {
	if c.Err = c.Count(); c.Err != nil {
		return false
	}
	switch {
	case c.Step == stepInsert && c.inserted:
		c.Acquire(c.insertedRecord().view(c.Params.Key))
		return false
	case c.Step == stepChange && c.taken != nil:
		c.taken.now = c.taken.late
		c.Acquire(c.taken.view(c.Params.Key))
		if c.taken.saved > 0 {
			return c.ContinueWith(stepFind) // as long as the lease holds no other attempt can add any
		}
		return false
	case c.Step == stepChange && c.absent:
		return c.ContinueWith(stepInsert)
	case c.Step == stepFind && c.Answer.Verdict == retrysafe.Acquired:
		return c.afterReadingSteps()
	case c.Step == stepFind:
		return c.afterFinding()
	}
	return c.ContinueWith(stepFind)
}

func (c *claim) afterReadingSteps() (more bool) {
	if c.found == nil || !c.found.PendingUnder(c.Answer.Lease) {
		c.Answer = retrysafe.Claim{} // another attempt has taken the key since, and the steps may be gone
		return c.ContinueWith(stepFind)
	}
	c.Answer.Record.Steps = c.found.inOrder()
	return false
}

// afterFinding answers with the record that was found, unless the claim may be able to take the key.
func (c *claim) afterFinding() (more bool) {
	r := c.found
	if r == nil {
		return c.ContinueWith(stepInsert)
	}
	v := r.Verdict(&c.Params, r.now)
	if r.PendingUnder(retrysafe.Lease{Owner: c.Params.Owner, Fence: c.triedAt}) && r.FirstFence == c.triedAt {
		c.Acquire(r.view(c.Params.Key)) // this operation has inserted the row, together with others that were not new
		return false
	}
	if r.Expired(r.now) || v == retrysafe.Acquired {
		c.Take(&r.Record, r.now)
		return c.ContinueWith(stepChange)
	}
	c.Answer = retrysafe.Claim{Verdict: v, Record: r.view(c.Params.Key)}
	return false
}

// LeaveHeld implements storekit.Operation.
func (c *claim) LeaveHeld() (left, more bool) {
	return c.Claim.LeaveHeld(c.Base(), stepInsert, stepFind)
}
