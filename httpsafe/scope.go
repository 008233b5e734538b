package httpsafe

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/caller"
)

// ScopeFunc tells whose key it is: a name for the authenticated caller, the same on every retry. Return an error if the
// caller cannot be told; the request is then refused with 401.
//
// Never build a scope from what a request merely claims: a caller who can choose the scope can read the answers of
// others. What ScopeFunc returns may be stored; do not return a credential itself.
type ScopeFunc func(*http.Request) (string, error)

// ScopeCredential tells callers apart by the SHA-256 of their Authorization header, or else of their X-API-Key header.
// A rotated credential is another caller: where credentials change within a retry's time, take the caller's identity
// from what authentication has established.
func ScopeCredential() ScopeFunc {
	return func(r *http.Request) (string, error) {
		for _, name := range [...]string{"Authorization", "X-Api-Key"} {
			if values := r.Header[name]; len(values) == 1 && values[0] != "" {
				return caller.Digest(values[0]), nil
			}
		}
		return "", errors.New("httpsafe: exactly one Authorization or X-API-Key header is needed to tell callers apart")
	}
}

// ScopeHeader tells callers apart by a header that a trusted gateway sets, and that it removes from what clients send.
func ScopeHeader(name string) ScopeFunc {
	canonical := http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		values := r.Header[canonical]
		if len(values) != 1 || values[0] == "" {
			return "", fmt.Errorf("httpsafe: exactly one %s header is needed to tell callers apart", name)
		}
		return values[0], nil
	}
}

// ScopeMTLS tells callers apart by the SHA-256 of their verified client certificate's subject and issuer, so that a
// renewed certificate is the same caller. The server's tls.Config must demand and verify client certificates.
func ScopeMTLS() ScopeFunc {
	return func(r *http.Request) (string, error) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
			return "", errors.New("httpsafe: a verified client certificate is needed to tell callers apart")
		}
		leaf := r.TLS.VerifiedChains[0][0]
		return caller.Digest(retrysafe.Scope(string(leaf.RawIssuer), string(leaf.RawSubject))), nil
	}
}

// ScopeNone puts all callers into one scope: whoever knows a key can read its answer. For services with one caller.
func ScopeNone() ScopeFunc {
	return func(*http.Request) (string, error) { return "", nil }
}

// scopeOf returns the scope of the request's key: version, caller and operation, as far as they are configured.
func (c *config) scopeOf(r *http.Request) (string, error) {
	name, err := c.scope(r)
	if err != nil {
		return "", err
	}
	base := c.callerScope(name)
	if c.scopeRoute {
		base += "/" + retrysafe.Scope(c.operation(r))
	}
	return base, nil
}

// callerScope is the scope without the operation.
func (c *config) callerScope(caller string) string {
	if strings.ContainsAny(caller, "/%") {
		caller = retrysafe.Scope(caller)
	}
	if c.scopeVersion != "" {
		return c.scopeVersion + "/" + caller
	}
	return caller
}

// operation names the route: its pattern where one is known, which begins with the method or not.
func (c *config) operation(r *http.Request) string {
	route := c.route
	if route == "" {
		route = r.Pattern
	}
	if route == "" {
		route = r.URL.Path
	}
	return r.Method + " " + strings.TrimPrefix(route, r.Method+" ")
}
