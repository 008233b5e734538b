package grpcsafe

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// Release says, inside a handler, that nothing happened: the answer is sent, whatever its code, and the key is free again. It returns
// retrysafe.ErrNoAttempt if ctx is not that of a guarded call.
func Release(ctx context.Context) error { return rpcsafe.Release(ctx) }

// Unknown says, inside a handler, that it cannot tell what happened: the answer is sent, and the key is abandoned. It returns
// retrysafe.ErrNoAttempt if ctx is not that of a guarded call.
func Unknown(ctx context.Context) error { return rpcsafe.Unknown(ctx) }

// SetReply says, inside a store's InTx, what the handler is about to answer, so that answer and business rows are saved together. Header
// and trailer set until the transaction ends are saved with it. Every caller then gets this answer, whatever the handler returns. A
// transaction that is rolled back forgets it. It returns retrysafe.ErrNoAttempt if ctx is not that of a guarded call.
//
//	err := store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
//		…
//		return grpcsafe.SetReply(ctx, reply)
//	})
func SetReply(ctx context.Context, reply proto.Message) error { return rpcsafe.SetReply(ctx, reply) }

// NewResult returns the Result that stands for an answer, for a ReconcileFunc or for resolving a key by hand: reply, or the status of err if
// that is not nil.
func NewResult(reply proto.Message, err error) (retrysafe.Result, error) {
	if err != nil {
		return rpcsafe.NewResult(rpcsafe.Reply{Status: statusOf(err).Proto()})
	}
	return rpcsafe.NewResult(rpcsafe.Reply{Message: reply})
}
