package rpcsafe

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
)

// Run is one run of a handler.
type Run struct {
	s       *Server
	attempt *retrysafe.Attempt
	method  string

	mu       sync.Mutex
	metadata func() (header, trailer Metadata)
	override Class         // what the handler says of its outcome; 0: nothing
	said     proto.Message // by SetReply
	sealed   Reply         // what a transaction saves
}

type runKey struct{}

func newRun(s *Server, a *retrysafe.Attempt, method string) *Run {
	r := &Run{s: s, attempt: a, method: method, metadata: func() (header, trailer Metadata) { return nil, nil }}
	a.Control().Capture(r.capture)
	return r
}

// Metadata sets what tells the header and trailer that the handler has set so far. They must not change afterwards.
func (r *Run) Metadata(f func() (header, trailer Metadata)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metadata = f
}

// Release says that nothing happened.
func Release(ctx context.Context) error { return override(ctx, ClassRelease) }

// Unknown says that it cannot be told what happened.
func Unknown(ctx context.Context) error { return override(ctx, ClassUnknown) }

func override(ctx context.Context, c Class) error {
	r, ok := ctx.Value(runKey{}).(*Run)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.override = c
	return nil
}

// SetReply says what the handler is about to answer.
func SetReply(ctx context.Context, m proto.Message) error {
	r, ok := ctx.Value(runKey{}).(*Run)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = proto.Clone(m)
	return nil
}

var errNothingSaid = errors.New("no answer to save with the transaction: call SetReply first")

// capture is what a transaction saves. It belongs to one transaction: the next needs another SetReply.
func (r *Run) capture() (retrysafe.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.said
	r.said = nil
	if said == nil {
		return retrysafe.Result{}, errNothingSaid
	}
	reply := Reply{Message: said}
	reply.Header, reply.Trailer = r.metadata()
	result, sealed, err := r.s.encode(reply, r.method)
	r.sealed = sealed
	return result, err
}

// end says how the handler's work ended, and what its caller gets.
func (r *Run) end(reply Reply) (retrysafe.Result, Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempt.Control().Completed() && r.sealed.Message != nil { // by a transaction: what it has saved is the answer
		return retrysafe.Result{}, r.sealed, nil
	}
	class := r.override
	if class == 0 {
		class = r.s.o.Class(reply.code())
	}
	switch r.s.ambiguous().apply(class) {
	case ClassRelease:
		return retrysafe.Result{}, reply, retrysafe.Retryable(errReleased)
	case ClassUnknown:
		return retrysafe.Result{}, reply, retrysafe.Unknown(errUnknown)
	}
	result, reply, err := r.s.encode(reply, r.method)
	if err != nil { // the codec will say so too; the work has run all the same
		result = retrysafe.Result{Code: int(reply.code()), Failed: reply.Status != nil, Omitted: true}
	}
	return result, reply, nil
}
