package client

import (
	"context"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// WithIntent returns a context whose request has the intent's key, which is the same whatever transport carries it. A
// journal keeps the intent's text beside it. As with [WithKey], it is the key of one request. A request for an intent
// without Params is refused with an error that is [retrysafe.ErrInvalidKey]: all requests of that operation would share
// one key, and the second charge would get the answer of the first.
func WithIntent(ctx context.Context, i retrysafe.Intent) context.Context {
	return withNamed(ctx, &named{key: i.Key(), intent: i.String(), derived: true, broad: len(i.Params) == 0})
}

// WithKey returns a context whose request has this key: one that the caller has kept since before the first attempt.
// It is the key of one request. A second request with the context may repeat the first (over HTTP: method, URL and
// body; over gRPC: method and message); another one is refused with an error that is [retrysafe.ErrMismatch].
//
// Inside an attempt of a Guard that began later, the key does not count: the attempt's own calls have child keys.
func WithKey(ctx context.Context, key string) context.Context {
	return withNamed(ctx, &named{key: key})
}

// WithOperation returns a context whose requests, inside an attempt of a Guard, have the child key of this name.
// Without it the name is that of the [retrysafe.Step] in which the call is made; outside of steps it is the method and
// the URL without its query, such as "POST https://bank.example/charges", or "CALL /shop.v1.Payments/Create" over
// gRPC. An attempt may make one such call: a second is refused with [ErrUnnamedCall], because the two could not be told
// apart when the attempt is run again, perhaps in another order.
//
// Names belong to operations, not to their place in the code: in a loop over lines, "reserve line 3". They must be the
// same on every attempt. A second call of the same name may repeat the first; another request is refused with an error
// that is [retrysafe.ErrMismatch].
func WithOperation(ctx context.Context, name string) context.Context {
	return withNamed(ctx, &named{operation: name})
}

// WithCredential returns a context that names the credential of its requests, for the journal and for the transport's
// authorization: its name or ID, never the credential itself. A key belongs to one credential.
func WithCredential(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, credentialContext{}, id)
}

// credentialFrom returns what WithCredential named; empty if nothing.
func credentialFrom(ctx context.Context) string {
	id, _ := ctx.Value(credentialContext{}).(string)
	return id
}

type (
	namedContext      struct{}
	credentialContext struct{}
)

// named is what a context says about the key of a request.
type named struct {
	key, intent, operation string
	derived                bool               // the key is that of an intent
	broad                  bool               // the intent has no Params
	within                 *retrysafe.Attempt // that the context was made in; nil: none

	mu    sync.Mutex
	first string // digest of the first request under key
}

func withNamed(ctx context.Context, n *named) context.Context {
	n.within, _ = retrysafe.AttemptFrom(ctx)
	return context.WithValue(ctx, namedContext{}, n)
}

// namedIn returns what ctx says about its request, inside the attempt that it now runs in.
func namedIn(ctx context.Context) *named {
	n, _ := ctx.Value(namedContext{}).(*named)
	if attempt, _ := retrysafe.AttemptFrom(ctx); n == nil || n.within != attempt {
		return &named{}
	}
	return n
}

// admits reports whether a request of that digest may have the key: all requests under it must be the same.
func (n *named) admits(digest string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.first == "" {
		n.first = digest
	}
	return n.first == digest
}
