package rpcsafe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
)

// Run is one run of a handler, under one attempt.
type Run struct {
	s       *Server
	attempt *retrysafe.Attempt
	method  string

	mu       sync.Mutex
	metadata func() (header, trailer Metadata)
	override retrysafe.Class // by Release or Unknown; 0: neither was called
	pending  proto.Message   // by SetReply, for the next transaction
	sealed   Reply           // what a transaction has saved
}

type runKey struct{}

func newRun(s *Server, a *retrysafe.Attempt, method string) *Run {
	r := &Run{s: s, attempt: a, method: method, metadata: func() (header, trailer Metadata) { return nil, nil }}
	a.Control().Capture(r.capture)
	return r
}

// Metadata sets the function that returns the header and trailer that the handler has set so far. The maps it returns
// must not change afterwards.
func (r *Run) Metadata(f func() (header, trailer Metadata)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metadata = f
}

// Release says, inside a handler, that nothing happened: the answer is sent, whatever its code, and the key is free
// again. It is what retrysafe.Retryable is for work that returns an error. Under retrysafe.RerunTx an answer of
// ClassAmbiguous, such as INTERNAL, means it without this call. Release returns retrysafe.ErrNoAttempt if ctx is not
// that of a guarded call.
func Release(ctx context.Context) error { return override(ctx, retrysafe.ClassRelease) }

// Unknown says, inside a handler, that the handler does not know what happened: the answer is sent, and the key is
// abandoned. It returns retrysafe.ErrNoAttempt if ctx is not that of a guarded call.
func Unknown(ctx context.Context) error { return override(ctx, retrysafe.ClassUnknown) }

func override(ctx context.Context, c retrysafe.Class) error {
	r, ok := ctx.Value(runKey{}).(*Run)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.override = c
	return nil
}

// SetReply sets, inside a store's InTx, the answer that the transaction saves together with the business rows. Header
// and trailer that were set until the transaction ends are saved with it. Every caller then gets this answer,
// whatever the handler returns; an error that it returns is reported to observers as retrysafe.AnswerDiscarded. A
// transaction that is rolled back discards the answer. SetReply returns retrysafe.ErrNoAttempt if ctx is not that of a
// guarded call.
//
//	err := store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
//		…
//		return rpcsafe.SetReply(ctx, reply)
//	})
func SetReply(ctx context.Context, m proto.Message) error {
	r, ok := ctx.Value(runKey{}).(*Run)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = proto.Clone(m)
	return nil
}

// errSaved is the error in the event AnswerDiscarded of a handler that failed after its transaction had committed.
var errSaved = errors.New("rpcsafe: the answer was saved with the transaction; " +
	"the error that the handler returned after InTx is discarded")

var errNoReply = errors.New("the transaction has no answer to save: call rpcsafe.SetReply before it ends")

// capture returns the result that a transaction saves. It is used up by that transaction: the next one needs another
// SetReply.
func (r *Run) capture() (retrysafe.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reply := Reply{Message: r.pending}
	r.pending = nil
	if reply.Message == nil {
		return retrysafe.Result{}, errNoReply
	}
	reply.Header, reply.Trailer = r.metadata()
	result, sealed, err := r.s.encode(reply, r.method)
	r.sealed = sealed
	return result, err
}

// end returns how the attempt ends after the handler has answered, and the reply that the caller gets. An error that
// comes after a transaction has committed the answer is only reported.
func (r *Run) end(reply Reply) (retrysafe.Result, Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempt.Control().Completed() && r.sealed.Message != nil { // by a transaction, which has saved the answer
		if reply.Status != nil {
			return retrysafe.Result{}, r.sealed, fmt.Errorf("%w: %s", errSaved, reply.code())
		}
		return retrysafe.Result{}, r.sealed, nil
	}
	class, policy := r.override, r.s.ambiguous()
	if class == 0 {
		class = r.s.o.class(reply)
	}
	if class == retrysafe.ClassAmbiguous && r.attempt.Err() != nil && policy == retrysafe.AmbiguousStore {
		class = retrysafe.ClassUnknown // most likely the work was interrupted, as by Policy.Timeout
	}
	switch policy.Apply(class) {
	case retrysafe.ClassRelease:
		return retrysafe.Result{}, reply, retrysafe.Retryable(errReleased)
	case retrysafe.ClassUnknown:
		return retrysafe.Result{}, reply, retrysafe.Unknown(errUnknown)
	}
	result, reply, err := r.s.encode(reply, r.method)
	if err != nil { // the codec will fail too, but the work has run
		result = retrysafe.Result{Code: int(reply.code()), Failed: reply.Status != nil, Omitted: true}
	}
	return result, reply, nil
}
