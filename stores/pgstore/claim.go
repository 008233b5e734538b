package pgstore

import (
	"context"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Claim takes the key for one attempt, or reports who has it.
//
// A key that is likely to be new is inserted at once, and read only if a record is there. A key that is likely to be
// known is read first, which writes nothing and waits for no sync.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c := newClaim(s, p)
	if !s.guess.Inserts(&p) {
		c.Step = stepFind
	}
	return storekit.DoClaim[operation](ctx, s.batcher, &s.guess, c, &c.Claim, func(err error) bool {
		return sqlState(err) == diskFull
	})
}

// claim is one call of Claim.
type claim struct {
	call
	storekit.Claim
	store *Store
	set   claimValues
}

// claimValues are what insert.sql and acquire.sql take beside the key and the owner.
type claimValues struct {
	lease                  number
	keep                   storekit.Keep
	waiters                boolean // a caller of this process watches the key
	takeOver               boolean
	fingerprint, scope, id binary
	tags                   binary
}

func newClaim(s *Store, p retrysafe.ClaimParams) *claim {
	c := &claim{call: newCall(p.Key, stepInsert), Claim: storekit.Claim{Params: p}, store: s, set: claimValues{
		lease: micros(p.Lease), keep: storekit.NewKeep(p.Keep), takeOver: boolean(p.TakeOver),
		fingerprint: binary(p.Fingerprint), scope: binary(p.Key.Scope), id: binary(p.Key.ID), tags: binary(p.Tags.String()),
	}}
	v := &c.set
	c.values = []any{
		c.key(), (*uuid)(&c.Params.Owner), &v.lease,
		(*number)(&v.keep.Replay), (*number)(&v.keep.Key), (*number)(&v.keep.Audit),
		&v.waiters, &v.takeOver, &v.fingerprint, &v.scope, &v.id, &v.tags,
	}
	return c
}

func (c *claim) row() []any {
	c.set.waiters = boolean(c.store.watches.Has(c.Digest))
	return c.call.row()
}

func (c *claim) Next() (more bool) {
	if c.Err = c.Count(); c.Err != nil {
		return false
	}
	switch c.Step {
	case stepInsert, stepAcquire:
		return c.afterAcquiring()
	case stepFind:
		if c.Answer.Verdict == retrysafe.Acquired {
			return c.afterReadingSteps()
		}
		return c.afterFinding()
	case stepWatch:
		return c.ContinueWith(stepFind) // the attempt may have ended before its row was marked
	}
	return c.ContinueWith(stepAcquire) // what was left of an expired record has been archived
}

// afterAcquiring answers if the key was taken. Its steps are read in a batch of their own: as long as the lease
// holds, no other attempt can add any.
func (c *claim) afterAcquiring() (more bool) {
	if !c.made {
		return c.ContinueWith(stepFind)
	}
	r := c.found
	r.State, r.Keep, r.Fingerprint = retrysafe.Pending, c.set.keep, c.Params.Fingerprint
	c.Acquire(r.view(c.Params.Key))
	if r.saved > 0 {
		return c.ContinueWith(stepFind)
	}
	return false
}

func (c *claim) afterReadingSteps() (more bool) {
	if c.found == nil || !c.found.PendingUnder(c.Answer.Lease) {
		c.Answer = retrysafe.Claim{} // another attempt has taken the key since, and the steps may be gone
		return c.ContinueWith(stepFind)
	}
	c.Answer.Record.Steps = c.found.steps()
	return false
}

// afterFinding answers with the record that was found, unless the claim may be able to take the key.
func (c *claim) afterFinding() (more bool) {
	r := c.found
	if r == nil {
		return c.ContinueWith(stepAcquire)
	}
	v := r.Verdict(&c.Params, r.now)
	switch {
	case r.State == retrysafe.Pending && r.began < r.EndsAt && r.EndsAt <= r.now:
		// The lease ended while the row was being read. An extension of it may have been committed without being seen.
		return c.ContinueWith(stepFind)
	case r.Expired(r.now) && (r.saved > 0 || r.Audited(r.now)):
		return c.ContinueWith(stepArchive)
	case r.Expired(r.now), v == retrysafe.Acquired:
		c.Take(&r.Record, r.now)
		return c.ContinueWith(stepAcquire)
	case v == retrysafe.InFlight && r.State == retrysafe.Pending && !r.waiters && c.store.watches.Has(c.Digest):
		return c.ContinueWith(stepWatch)
	}
	c.Answer = retrysafe.Claim{Verdict: v, Record: r.view(c.Params.Key)}
	return false
}

// LeaveHeld implements storekit.Operation.
func (c *claim) LeaveHeld() (left, more bool) {
	return c.Claim.LeaveHeld(c.Base(), stepInsert, stepFind)
}
