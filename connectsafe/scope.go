package connectsafe

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe/internal/caller"
)

// ScopeFunc tells whose key it is: a name for the authenticated caller, the same on every retry. Take it from what authentication has put
// into ctx, or from the request's header or peer. Return an error if the caller cannot be told; the call is then refused with
// unauthenticated.
//
// Never build a scope from what a call merely claims: a caller who can choose the scope can read the answers of others. What ScopeFunc
// returns may be stored; do not return a credential itself. An empty name is refused: only ScopeNone says that all callers share one scope.
type ScopeFunc func(ctx context.Context, request connect.AnyRequest) (string, error)

// ScopeCredential tells callers apart by the SHA-256 of their Authorization header, or else of their X-API-Key header. A rotated
// credential is another caller: where credentials change within a retry's time, take the caller's identity from what authentication has
// established. An Authorization header that is made anew for each call (AWS signatures, Digest, Hawk, DPoP and their like) names nobody: such
// calls are refused.
func ScopeCredential() ScopeFunc {
	return func(_ context.Context, request connect.AnyRequest) (string, error) {
		if values := request.Header()["Authorization"]; len(values) == 1 && values[0] != "" {
			return caller.Credential(values[0])
		}
		if values := request.Header()["X-Api-Key"]; len(values) == 1 && values[0] != "" {
			return caller.Digest(values[0]), nil
		}
		return "", errors.New("connectsafe: exactly one Authorization or X-API-Key header is needed to tell callers apart")
	}
}

// ScopeHeader tells callers apart by a header that a trusted gateway sets, and that it removes from what clients send.
func ScopeHeader(name string) ScopeFunc {
	return func(_ context.Context, request connect.AnyRequest) (string, error) {
		values := request.Header().Values(name)
		if len(values) != 1 || values[0] == "" {
			return "", fmt.Errorf("connectsafe: exactly one %s header is needed to tell callers apart", name)
		}
		return values[0], nil
	}
}

// ScopeNone puts all callers into one scope: whoever knows a key can read its answer. For services with one caller.
func ScopeNone() ScopeFunc {
	return func(context.Context, connect.AnyRequest) (string, error) { return "", caller.ErrShared }
}
