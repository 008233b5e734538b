package storekit

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Claims that ask for a record that is there begin with a look, and leave the guess about other claims as it is: those of
// new keys are inserted at once, however many records are asked for.
//
// Seen to fail with Again left out of Inserts, and out of DoClaim.
func TestClaimsAgainAreNotLearnedFrom(t *testing.T) {
	t.Parallel()
	g := new(Guess)
	b := NewBatcher(1, 1, Server[*claimOp]{
		Steps: Steps{Count: 1}, Timeout: time.Minute,
		Send: func(context.Context, *Batch[*claimOp]) error { return nil },
	})
	for range 10 {
		op := &claimOp{Call: NewCall(retrysafe.Key{ID: "k"}, 0)}
		op.Params.Again = true
		op.Answer.Verdict = retrysafe.Done
		if g.Inserts(&op.Params) {
			t.Error("a claim that says that there is a record begins with an insert")
		}
		if _, err := DoClaim(t.Context(), b, g, op, &op.Claim, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !g.Inserts(&retrysafe.ClaimParams{}) {
		t.Error("a claim of a new key does not begin with an insert")
	}
}
