package storekit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// claimOp is the operation of a claim that is answered by one step.
type claimOp struct {
	Call
	Claim
}

func (c *claimOp) Begin()                       {}
func (c *claimOp) Next() (more bool)            { return false }
func (c *claimOp) LeaveHeld() (left, more bool) { return false, false }

// A server that says it is full has made no record, unless it has received the claim before: the caller is not told that
// nothing has happened. Seen to fail with SentAgain left out of DoClaim.
func TestClaimThatWasSentAgainToAFullServer(t *testing.T) {
	t.Parallel()
	errFull, errBroken := errors.New("full"), errors.New("the connection broke")
	asIs := func(err error) error { return err }
	for _, breaks := range []bool{false, true} {
		sent := 0
		b := NewBatcher(1, 1, Server[*claimOp]{
			Steps: Steps{Count: 1}, Timeout: time.Minute, Remedy: asIs, Explain: asIs,
			Send: func(context.Context, *Batch[*claimOp]) error {
				if sent++; sent == 1 && breaks {
					return errBroken
				}
				return errFull
			},
			Fault: func(err error) Fault {
				if errors.Is(err, errBroken) {
					return Disconnected
				}
				return Refused
			},
			Reconnect: func() (tries int) { return 1 },
		})
		op := &claimOp{Call: NewCall(retrysafe.Key{ID: "k"}, 0)}
		isFull := func(err error) bool { return errors.Is(err, errFull) }
		_, err := DoClaim(t.Context(), b, new(Guess), op, &op.Claim, isFull)
		if !errors.Is(err, errFull) || errors.Is(err, retrysafe.ErrStoreFull) == breaks {
			t.Errorf("after %d times: got %v", sent, err)
		}
	}
}
