package rpcsafe

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/internal/caller"
)

// ScopeFunc returns the name of a call's authenticated caller, which must be the same on every retry. ctx is that of
// the call. An error means that the caller is not known: the call is refused with UNAUTHENTICATED, or with UNAVAILABLE if
// it is ErrScopeUnavailable.
//
// Never build a scope from what a call merely claims: a caller who can choose the scope can read the answers of
// others. What ScopeFunc returns may be stored; do not return a credential itself. An empty name is refused: only
// ScopeNone lets all callers share one scope.
type ScopeFunc func(ctx context.Context) (string, error)

// ErrScopeUnavailable is what a ScopeFunc returns, or wraps, if it cannot look callers up at the moment. The call is
// refused with UNAVAILABLE and a pushback of a second, and is retried with the same key. Its text is not shown.
var ErrScopeUnavailable = errors.New("rpcsafe: callers cannot be looked up at the moment")

// ScopeNone puts all callers into one scope: every caller who knows a key can read its answer. For services with one
// caller.
func ScopeNone() ScopeFunc {
	return func(context.Context) (string, error) { return "", caller.ErrShared }
}

// Values returns the values of a call's metadata entry or header.
type Values func(name string) []string

// Credential names the caller by the SHA-256 of its Authorization entry or X-API-Key entry; of both if a call has both.
// It returns an error if there is neither, if one has several values, or if the credential is made anew for each call (AWS signatures, Digest,
// Hawk, DPoP and similar schemes) and cannot identify the caller of a retry.
func (v Values) Credential() (string, error) {
	return caller.Credentials(v("Authorization"), v("X-Api-Key"))
}

// Single returns the one value of a metadata entry. It returns an error if there is none, or more than one.
func (v Values) Single(name string) (string, error) {
	values := v(name)
	if len(values) != 1 || values[0] == "" {
		return "", fmt.Errorf("rpcsafe: the scope needs exactly one %s entry", name)
	}
	return values[0], nil
}
