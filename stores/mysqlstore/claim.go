package mysqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Claim takes the key for one attempt, or reports who has it.
//
// A key that is likely to be new is inserted at once, and read only if a record is there. A key that is likely to be
// known is read first, which writes nothing and waits for no sync.
//
// It returns an error that is retrysafe.ErrStoreFull if the server has no room for a new key.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := newClaim(p)
	if err != nil {
		return retrysafe.Claim{}, fmt.Errorf("claim %s: %w", p.Key, err)
	}
	if !s.guess.New() {
		c.step = stepFind
	}
	if err := s.do(ctx, c); err != nil {
		if n := errorNumber(err); (n == tableFull || n == diskFull) && c.step == stepInsert { // which has inserted nothing
			err = fmt.Errorf("%w: %w", retrysafe.ErrStoreFull, err)
		}
		return retrysafe.Claim{}, fmt.Errorf("claim %s: %w", p.Key, err)
	}
	s.guess.Learn(c.answer.Verdict == retrysafe.Acquired && c.answer.Record.Attempt == 1)
	c.answer.Doubted = c.sentAgain
	return c.answer, nil
}

// claim is one call of Claim.
type claim struct {
	call
	params retrysafe.ClaimParams
	lease  int64 // in microseconds
	keep   storekit.Keep
	steps  int     // how many it has taken
	taken  *record // what decide has made of the row; nil: it may not have it, or there is none
	absent bool    // decide has found no row
	answer retrysafe.Claim
	// abandoned is the record that the claim is about to take over; nil: it is not.
	abandoned *record
}

// maxSteps bounds how often a key may change hands while one claim of it is being answered.
const maxSteps = 1000

var errTooManySteps = errors.New("mysqlstore: the key changed hands again and again")

func newClaim(p retrysafe.ClaimParams) (*claim, error) {
	for what, n := range map[string]int{
		"the scope": len(p.Key.Scope), "the ID": len(p.Key.ID), "the fingerprint": len(p.Fingerprint),
	} {
		if n > retrysafe.MaxKeyBytes {
			return nil, fmt.Errorf("mysqlstore: %s has %d bytes, the limit is %d", what, n, retrysafe.MaxKeyBytes)
		}
	}
	return &claim{
		call: newCall(p.Key, stepInsert), params: p,
		lease: storekit.Micros(p.Lease), keep: storekit.NewKeep(p.Keep),
	}, nil
}

// insertRow is a row of insert.sql.
func (c *claim) insertRow() []any {
	p := &c.params
	return []any{
		c.digest[:], p.Owner[:], c.keep.Replay, c.keep.Key, c.keep.Audit,
		[]byte(p.Fingerprint), []byte(p.Key.Scope), []byte(p.Key.ID), c.lease,
	}
}

// insertedRecord is the record that insertRow makes.
func (c *claim) insertedRecord() *record {
	t := c.triedAt
	return &record{digest: c.digest, now: t, Record: storekit.Record{
		State: retrysafe.Pending, Owner: c.params.Owner, Fence: t, FirstFence: t, Attempt: 1,
		ClaimedAt: t, EndsAt: t + c.lease, Keep: c.keep, Fingerprint: c.params.Fingerprint,
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
		r.FirstFence, r.ClaimedAt, r.Attempt, r.saved = r.Fence, r.late, 1, 0
	case r.Verdict(&c.params, r.now) != retrysafe.Acquired:
		return
	case r.State != retrysafe.Pending || r.Owner != c.params.Owner:
		r.Fence, r.Attempt = max(r.Fence+1, r.late), r.Attempt+1
	}
	r.State, r.Owner, r.Fingerprint, r.Keep = retrysafe.Pending, c.params.Owner, c.params.Fingerprint, c.keep
	r.EndsAt, r.Code, r.Omitted = r.late+c.lease, 0, false
	r.sweepAt = (r.EndsAt + r.Keep.Key) / minute
	w.change(r)
	c.taken = r
}

func (c *claim) next() (more bool) {
	if c.steps++; c.steps > maxSteps {
		c.err = errTooManySteps
		return false
	}
	switch {
	case c.step == stepInsert && c.inserted:
		c.acquire(c.insertedRecord())
		return false
	case c.step == stepChange && c.taken != nil:
		c.taken.now = c.taken.late
		c.acquire(c.taken)
		if c.taken.saved > 0 {
			return c.continueWith(stepFind) // as long as the lease holds no other attempt can add any
		}
		return false
	case c.step == stepChange && c.absent:
		return c.continueWith(stepInsert)
	case c.step == stepFind && c.answer.Verdict == retrysafe.Acquired:
		return c.afterReadingSteps()
	case c.step == stepFind:
		return c.afterFinding()
	}
	return c.continueWith(stepFind)
}

func (c *claim) acquire(r *record) {
	c.answer = retrysafe.Claim{
		Verdict: retrysafe.Acquired,
		Lease:   retrysafe.Lease{Key: c.params.Key, Owner: c.params.Owner, Fence: r.Fence},
		Record:  r.view(c.params.Key),
	}
}

func (c *claim) afterReadingSteps() (more bool) {
	if c.found == nil || !c.found.PendingUnder(c.answer.Lease) {
		c.answer = retrysafe.Claim{} // another attempt has taken the key since, and the steps may be gone
		return c.continueWith(stepFind)
	}
	c.answer.Record.Steps = c.found.inOrder()
	return false
}

// afterFinding answers with the record that was found, unless the claim may be able to take the key.
func (c *claim) afterFinding() (more bool) {
	r := c.found
	if r == nil {
		return c.continueWith(stepInsert)
	}
	v := r.Verdict(&c.params, r.now)
	if r.PendingUnder(retrysafe.Lease{Owner: c.params.Owner, Fence: c.triedAt}) && r.FirstFence == c.triedAt {
		c.acquire(r) // the row is the one that this operation inserted together with others that were not new
		return false
	}
	if r.Expired(r.now) || v == retrysafe.Acquired {
		if c.abandoned = nil; r.AbandonedByAnother(c.params.Owner, r.now) {
			c.abandoned = r
		}
		return c.continueWith(stepChange)
	}
	c.answer = retrysafe.Claim{Verdict: v, Record: r.view(c.params.Key)}
	return false
}

// leaveHeld has a claim go on that has waited for a record which a transaction holds. It may be that of a service which
// has completed the key and is about to commit, or stands still there: the key is in flight until it ends. What the
// claim was about to insert is there, and reading it waits for nobody; a take-over has its answer. It reports false if
// the claim has to wait, because the record may be its own.
func (c *claim) leaveHeld() (left, more bool) {
	switch {
	case c.step == stepInsert:
		return true, c.continueWith(stepFind)
	case c.abandoned == nil:
		return false, false
	}
	c.answer = storekit.HeldClaim(c.abandoned.view(c.params.Key))
	close(c.done)
	return true, false
}
