package httpsafe

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// handlerContext is the context of the handler's request: the attempt, with a reference to the recorder.
type handlerContext struct {
	*retrysafe.Attempt
	recorder *recorder
}

type recorderKey struct{}

// Value implements context.Context.
func (c *handlerContext) Value(key any) any {
	if _, ok := key.(recorderKey); ok {
		return c.recorder
	}
	if _, ok := key.(deliveryKey); ok {
		return nil // the key is claimed: what the handler calls is another request
	}
	value := c.Attempt.Value(key)
	if a, ok := value.(*retrysafe.Attempt); ok && a == c.Attempt {
		c.recorder.offer() // code that does not ask for the attempt cannot complete it
	}
	return value
}

// Release says, inside a handler, that nothing happened: the response is sent, whatever its status, and the key is free
// again. It is what [retrysafe.Retryable] is for work that returns an error. Under [retrysafe.RerunTx] an answer of
// ClassAmbiguous, such as a 500, means it without this call. Release returns [retrysafe.ErrNoAttempt] if ctx is not
// that of a guarded request.
func Release(ctx context.Context) error { return override(ctx, retrysafe.ClassRelease) }

// Unknown says, inside a handler, that it cannot tell what happened: the response is sent, and the key is abandoned.
// It returns [retrysafe.ErrNoAttempt] if ctx is not that of a guarded request.
func Unknown(ctx context.Context) error { return override(ctx, retrysafe.ClassUnknown) }

// Ambiguous says, inside a handler, that it answers without knowing whether the operation ran, as a proxy does whose
// upstream does not answer. The response is sent, whatever its status, and Idempotency-Status says "unknown". The key
// is abandoned, as after a crash; it is free again only if [Options.Ambiguous] is [retrysafe.AmbiguousRelease].
// Ambiguous returns [retrysafe.ErrNoAttempt] if ctx is not that of a guarded request.
func Ambiguous(ctx context.Context) error { return override(ctx, classUnsure) }

func override(ctx context.Context, c retrysafe.Class) error {
	r, ok := ctx.Value(recorderKey{}).(decider)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	r.decide(c)
	return nil
}

// decider is told what the handler says of its outcome: a recorder, or an observedRequest.
type decider interface{ decide(c retrysafe.Class) }

func (r *recorder) decide(c retrysafe.Class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.override = c
}
