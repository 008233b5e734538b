package connectsafe

import (
	"context"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe/rpcsafe"
)

// ScopeFunc is an rpcsafe.ScopeFunc that is also given the request, for its header and peer.
type ScopeFunc func(ctx context.Context, request connect.AnyRequest) (string, error)

// ScopeCredential names callers by the SHA-256 of their Authorization header or X-API-Key header, or of both. A
// rotated credential is a different caller: where credentials change between a call and its retry, name the caller by
// the identity that authentication has established. Calls whose Authorization is made anew for each call (AWS
// signatures, Digest, Hawk, DPoP and similar schemes) are refused.
func ScopeCredential() ScopeFunc {
	return func(_ context.Context, r connect.AnyRequest) (string, error) {
		return rpcsafe.Values(r.Header().Values).Credential()
	}
}

// ScopeHeader names callers by a header that a trusted gateway sets and removes from what clients send.
func ScopeHeader(name string) ScopeFunc {
	return func(_ context.Context, r connect.AnyRequest) (string, error) {
		return rpcsafe.Values(r.Header().Values).Single(name)
	}
}

// ScopeNone puts all callers into one scope: every caller who knows a key can read its answer. For services with one
// caller.
func ScopeNone() ScopeFunc {
	return func(ctx context.Context, _ connect.AnyRequest) (string, error) { return rpcsafe.ScopeNone()(ctx) }
}
