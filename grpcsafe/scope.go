package grpcsafe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/caller"
)

// ScopeFunc tells whose key it is: a name for the authenticated caller, the same on every retry. ctx is that of the call: take the name
// from what authentication has put into it, from the peer, or from metadata. Return an error if the caller cannot be told; the call is
// then refused with UNAUTHENTICATED.
//
// Never build a scope from what a call merely claims: a caller who can choose the scope can read the answers of others. What ScopeFunc
// returns may be stored; do not return a credential itself. An empty name is refused: only ScopeNone says that all callers share one scope.
type ScopeFunc func(ctx context.Context) (string, error)

// ScopeCredential tells callers apart by the SHA-256 of their authorization metadata, or else of their x-api-key. A rotated credential is
// another caller: where credentials change within a retry's time, take the caller's identity from what authentication has established.
// An authorization that is made anew for each call (AWS signatures, Digest, Hawk, DPoP and their like) names nobody: such calls are refused.
func ScopeCredential() ScopeFunc {
	return func(ctx context.Context) (string, error) {
		if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) == 1 && values[0] != "" {
			return caller.Credential(values[0])
		}
		if values := metadata.ValueFromIncomingContext(ctx, "x-api-key"); len(values) == 1 && values[0] != "" {
			return caller.Digest(values[0]), nil
		}
		return "", errors.New("grpcsafe: exactly one authorization or x-api-key entry is needed to tell callers apart")
	}
}

// ScopeMetadata tells callers apart by metadata that a trusted gateway sets, and that it removes from what clients send.
func ScopeMetadata(name string) ScopeFunc {
	name = strings.ToLower(name)
	return func(ctx context.Context) (string, error) {
		values := metadata.ValueFromIncomingContext(ctx, name)
		if len(values) != 1 || values[0] == "" {
			return "", fmt.Errorf("grpcsafe: exactly one %s entry is needed to tell callers apart", name)
		}
		return values[0], nil
	}
}

// ScopeMTLS tells callers apart by the SHA-256 of their verified client certificate's subject and issuer, so that a renewed certificate
// is the same caller. The server's credentials must demand and verify client certificates.
func ScopeMTLS() ScopeFunc {
	return func(ctx context.Context) (string, error) {
		p, _ := peer.FromContext(ctx)
		if p == nil {
			return "", errNoCertificate
		}
		info, ok := p.AuthInfo.(credentials.TLSInfo)
		if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 {
			return "", errNoCertificate
		}
		leaf := info.State.VerifiedChains[0][0]
		return caller.Digest(retrysafe.Scope(string(leaf.RawIssuer), string(leaf.RawSubject))), nil
	}
}

var errNoCertificate = errors.New("grpcsafe: a verified client certificate is needed to tell callers apart")

// ScopeNone puts all callers into one scope: whoever knows a key can read its answer. For services with one caller.
func ScopeNone() ScopeFunc {
	return func(context.Context) (string, error) { return "", caller.ErrShared }
}
