package grpcsafe

import (
	"context"
	"errors"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/caller"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// ScopeCredential names callers by the SHA-256 of their authorization metadata or x-api-key, or of both. A rotated
// credential is a different caller: where credentials change between a call and its retry, name the caller by the
// identity that authentication has established. Calls whose authorization is made anew for each call (AWS signatures,
// Digest, Hawk, DPoP and similar schemes) are refused.
func ScopeCredential() rpcsafe.ScopeFunc {
	return func(ctx context.Context) (string, error) { return incoming(ctx).Credential() }
}

// ScopeMetadata names callers by a metadata entry that a trusted gateway sets and removes from what clients send.
func ScopeMetadata(name string) rpcsafe.ScopeFunc {
	return func(ctx context.Context) (string, error) { return incoming(ctx).Single(name) }
}

func incoming(ctx context.Context) rpcsafe.Values {
	return func(name string) []string { return metadata.ValueFromIncomingContext(ctx, name) }
}

// ScopeMTLS names callers by the SHA-256 of subject and issuer of their verified client certificate, so that a
// renewed certificate is the same caller. The server's credentials must demand and verify client certificates.
func ScopeMTLS() rpcsafe.ScopeFunc {
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

var errNoCertificate = errors.New("grpcsafe: the scope needs a verified client certificate")
