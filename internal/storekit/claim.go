package storekit

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// Claim is what the operation of a claim remembers from one step to the next.
type Claim struct {
	Params retrysafe.ClaimParams
	Answer retrysafe.Claim

	held  *retrysafe.Record // the abandoned record that the claim is about to take over; nil: it is not
	own   bool              // the record that it is about to take is that of an earlier claim by this owner
	steps int               // how many it has taken
}

// maxSteps bounds how often a key may change hands while one claim of it is being answered.
const maxSteps = 1000

var errTooManySteps = errors.New("the key changed hands again and again")

// Count counts a step that the claim has taken, and returns an error if there were too many.
func (c *Claim) Count() error {
	if c.steps++; c.steps > maxSteps {
		return errTooManySteps
	}
	return nil
}

// Acquire answers that the claim has taken the key, whose record callers now see as r.
func (c *Claim) Acquire(r retrysafe.Record) {
	c.Answer = retrysafe.Claim{
		Verdict: retrysafe.Acquired,
		Lease:   retrysafe.Lease{Key: c.Params.Key, Owner: c.Params.Owner, Fence: r.Fence},
		Record:  r,
	}
}

// Take is called before the step that takes the key, with the record that was found.
func (c *Claim) Take(r *Record, now Instant) {
	c.own = r.Owner == c.Params.Owner
	if c.held = nil; r.AbandonedByAnother(c.Params.Owner, now) {
		v := r.View(c.Params.Key, now)
		c.held = &v
	}
}

// TakesOver reports whether the claim is about to take over an abandoned key, whose record a transaction may hold.
func (c *Claim) TakesOver() bool { return c.held != nil }

// LeaveHeld is Operation.LeaveHeld of a claim. insert is the step that takes a key without a record, find the one that
// reads the record.
//
// The record that a transaction holds may be that of a service which has completed the key and is about to commit, or
// stands still there: the key is in flight until it ends. What the claim was about to insert is there, and reading it
// waits for nobody; a take-over has its answer. Any other claim has to wait, because the record may be its own.
func (c *Claim) LeaveHeld(call *Call, insert, find Step) (left, more bool) {
	switch {
	case call.Step == insert:
		return true, call.ContinueWith(find)
	case c.held == nil:
		return false, false
	}
	c.Answer = HeldClaim(*c.held)
	return true, false
}

// DoClaim has a worker run op, of which c is a part, and returns the answer. isFull reports whether an error says that
// the server had no room. That is ErrStoreFull for a new key only, which then has no record of this owner: neither if the
// claim takes the key over, nor if an earlier claim of the same owner has made the record.
func DoClaim[O Operation](
	ctx context.Context, b *Batcher[O], g *Guess, op O, c *Claim, isFull func(err error) bool,
) (retrysafe.Claim, error) {
	if err := b.Do(ctx, op); err != nil {
		// If it was sent again, the first copy may have made the record.
		if isFull(err) && !c.TakesOver() && !c.own && !op.Base().SentAgain {
			err = fmt.Errorf("%w: %w", retrysafe.ErrStoreFull, err)
		}
		return retrysafe.Claim{}, fmt.Errorf("claim %s: %w", c.Params.Key, err)
	}
	if !c.Params.Again {
		g.Learn(c.Answer.Verdict == retrysafe.Acquired && c.Answer.Record.Attempt == 1)
	}
	c.Answer.Doubted = op.Base().SentAgain
	return c.Answer, nil
}
