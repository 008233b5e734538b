package pgstore

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
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c := newClaim(s, p)
	if !s.guess.New() {
		c.step = stepFind
	}
	if err := s.do(ctx, c); err != nil {
		return retrysafe.Claim{}, fmt.Errorf("claim %s: %w", p.Key, err)
	}
	s.guess.Learn(c.answer.Verdict == retrysafe.Acquired && c.answer.Record.Attempt == 1)
	c.answer.Doubted = c.sentAgain
	return c.answer, nil
}

// claim is one call of Claim.
type claim struct {
	call
	store  *Store
	params retrysafe.ClaimParams
	set    claimValues
	steps  int // how many it has taken
	answer retrysafe.Claim
	// abandoned is the record that the claim is about to take over; nil: it is not.
	abandoned *record
}

// claimValues are what insert.sql and acquire.sql take beside the key and the owner.
type claimValues struct {
	lease                  number
	keep                   storekit.Keep
	waiters                boolean // a caller of this process watches the key
	takeOver               boolean
	fingerprint, scope, id binary
}

// maxSteps bounds how often a key may change hands while one claim of it is being answered.
const maxSteps = 1000

var errTooManySteps = errors.New("pgstore: the key changed hands again and again")

func newClaim(s *Store, p retrysafe.ClaimParams) *claim {
	c := &claim{call: newCall(p.Key, stepInsert), store: s, params: p, set: claimValues{
		lease: micros(p.Lease), keep: storekit.NewKeep(p.Keep), takeOver: boolean(p.TakeOver),
		fingerprint: binary(p.Fingerprint), scope: binary(p.Key.Scope), id: binary(p.Key.ID),
	}}
	v := &c.set
	c.values = []any{
		c.key(), (*uuid)(&c.params.Owner), &v.lease,
		(*number)(&v.keep.Replay), (*number)(&v.keep.Key), (*number)(&v.keep.Audit),
		&v.waiters, &v.takeOver, &v.fingerprint, &v.scope, &v.id,
	}
	return c
}

func (c *claim) row() []any {
	c.set.waiters = boolean(c.store.watches.Has(c.digest))
	return c.call.row()
}

func (c *claim) next() (more bool) {
	if c.steps++; c.steps > maxSteps {
		c.err = errTooManySteps
		return false
	}
	switch c.step {
	case stepInsert, stepAcquire:
		return c.afterAcquiring()
	case stepFind:
		if c.answer.Verdict == retrysafe.Acquired {
			return c.afterReadingSteps()
		}
		return c.afterFinding()
	case stepWatch:
		return c.continueWith(stepFind) // the attempt may have ended before its row was marked
	}
	return c.continueWith(stepAcquire) // what was left of an expired record has been archived
}

// afterAcquiring answers if the key was taken. Its steps are read in a batch of their own: as long as the lease
// holds, no other attempt can add any.
func (c *claim) afterAcquiring() (more bool) {
	if !c.made {
		return c.continueWith(stepFind)
	}
	r := c.found
	r.State, r.Keep, r.Fingerprint = retrysafe.Pending, c.set.keep, c.params.Fingerprint
	c.answer = retrysafe.Claim{
		Verdict: retrysafe.Acquired,
		Lease:   retrysafe.Lease{Key: c.params.Key, Owner: c.params.Owner, Fence: r.Fence},
		Record:  r.view(c.params.Key),
	}
	if r.saved > 0 {
		return c.continueWith(stepFind)
	}
	return false
}

func (c *claim) afterReadingSteps() (more bool) {
	if c.found == nil || !c.found.PendingUnder(c.answer.Lease) {
		c.answer = retrysafe.Claim{} // another attempt has taken the key since, and the steps may be gone
		return c.continueWith(stepFind)
	}
	c.answer.Record.Steps = c.found.steps()
	return false
}

// afterFinding answers with the record that was found, unless the claim may be able to take the key.
func (c *claim) afterFinding() (more bool) {
	r := c.found
	if r == nil {
		return c.continueWith(stepAcquire)
	}
	v := r.Verdict(&c.params, r.now)
	switch {
	case r.State == retrysafe.Pending && r.began < r.EndsAt && r.EndsAt <= r.now:
		// The lease ended while the row was being read. An extension of it may have been committed without being seen.
		return c.continueWith(stepFind)
	case r.Expired(r.now) && (r.saved > 0 || r.Audited(r.now)):
		return c.continueWith(stepArchive)
	case r.Expired(r.now), v == retrysafe.Acquired:
		if c.abandoned = nil; r.AbandonedByAnother(c.params.Owner, r.now) {
			c.abandoned = r
		}
		return c.continueWith(stepAcquire)
	case v == retrysafe.InFlight && r.State == retrysafe.Pending && !r.waiters && c.store.watches.Has(c.digest):
		return c.continueWith(stepWatch)
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
