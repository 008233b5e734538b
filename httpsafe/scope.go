package httpsafe

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/caller"
)

// ScopeFunc returns the name of the authenticated caller that a key belongs to, the same on every retry. Take it from
// what your authentication has put into the request's context, such as a tenant or the verified subject of a token.
// Return an error if the caller is unknown; the request is then refused with 401, and the text of the error is not shown.
// An error that is a *[Problem] is the answer itself: with 503, for example, while the sessions cannot be looked up. An
// empty name is refused too: only [ScopeNone] says that all callers share one scope.
//
// Never build a scope from what a request merely claims: a caller who can choose the scope can read the answers of
// others. The name may be stored, so do not return a credential itself.
type ScopeFunc func(*http.Request) (string, error)

// ScopeCredential identifies callers by the SHA-256 of their Authorization header or X-API-Key header; of both if a
// request has both. Use it for credentials that stay the same, such as API keys. A caller with a new credential is
// another caller: if credentials change while clients still retry, take the identity of the caller from your
// authentication instead. A bearer token that is a JWT with an expiration time is therefore refused with 401.
//
// An Authorization header that is new on each request (AWS signatures, Digest, OAuth 1.0a, Hawk, DPoP, Signature,
// Negotiate and similar) cannot identify a caller; such requests are refused with 401.
func ScopeCredential() ScopeFunc {
	return func(r *http.Request) (string, error) {
		return caller.Credentials(r.Header["Authorization"], r.Header["X-Api-Key"])
	}
}

// ScopeHeader identifies callers by a header that a trusted gateway sets. The gateway must remove it from what
// clients send.
func ScopeHeader(name string) ScopeFunc {
	canonical := http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		values := r.Header[canonical]
		if len(values) != 1 || values[0] == "" {
			return "", fmt.Errorf("httpsafe: exactly one %s header is needed to identify the caller", name)
		}
		return values[0], nil
	}
}

// ScopeCookie identifies callers by the SHA-256 of a cookie, such as that of a session. A caller with a new session is
// another caller, whose retry runs again: choose something that outlives a login if clients retry for longer than a
// session lasts. The cookie is not verified; your authentication does that.
func ScopeCookie(name string) ScopeFunc {
	return func(r *http.Request) (string, error) {
		cookies := r.CookiesNamed(name)
		if len(cookies) != 1 || cookies[0].Value == "" {
			return "", fmt.Errorf("httpsafe: exactly one cookie %s is needed to identify the caller", name)
		}
		return caller.Digest(retrysafe.Scope("cookie", name, cookies[0].Value)), nil
	}
}

// ScopeSame returns scope with callers that have several names counted as one: a name that is in names is replaced by
// the one that is there. So an API key and the one that replaces it are the same caller, and a retry with the new one
// gets the answer that the old one was given. For [ScopeCredential] a name is "sha256:" and the hash of the header's
// value in hex. Add a name before it is used: keys that were used under it are not found afterwards.
func ScopeSame(scope ScopeFunc, names map[string]string) ScopeFunc {
	names = maps.Clone(names)
	return func(r *http.Request) (string, error) {
		name, err := scope(r)
		if same, ok := names[name]; ok && err == nil {
			name = same
		}
		return name, err
	}
}

// ScopeAWSAccessKey identifies callers by the access key ID in the Authorization header of requests with an AWS
// signature (Signature Version 4 or 4A). It does not verify the signature; that must be done in front of it.
// Temporary credentials have an access key ID of their own, so a caller with new ones is another caller.
func ScopeAWSAccessKey() ScopeFunc {
	return func(r *http.Request) (string, error) {
		if values := r.Header["Authorization"]; len(values) == 1 {
			if id, ok := caller.AWSAccessKey(values[0]); ok {
				return id, nil
			}
		}
		return "", errors.New("httpsafe: exactly one Authorization header with an AWS signature, version 4, " +
			"is needed to identify the caller")
	}
}

// ScopeMTLS identifies callers by the SHA-256 of the subject and issuer of their verified client certificate, so that
// a renewed certificate is the same caller. The server's tls.Config must require and verify client certificates.
func ScopeMTLS() ScopeFunc {
	return func(r *http.Request) (string, error) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
			return "", errors.New("httpsafe: a verified client certificate is needed to identify the caller")
		}
		leaf := r.TLS.VerifiedChains[0][0]
		return caller.Digest(retrysafe.Scope(string(leaf.RawIssuer), string(leaf.RawSubject))), nil
	}
}

// ScopeNone puts all callers into one scope: every caller who knows a key can read its answer. Use it for services
// with one caller.
func ScopeNone() ScopeFunc {
	return func(*http.Request) (string, error) { return "", caller.ErrShared }
}

// callerOf returns the name of the request's caller; "" if all callers share one scope.
func (c *config) callerOf(r *http.Request) (string, error) { return caller.Resolve(c.scope(r)) }

// scopeUnresolved is the answer to a request whose caller is unknown. It does not show the error, which may name
// tenants, unless that is a Problem.
func scopeUnresolved(err error) *Problem {
	if p := new(Problem); errors.As(err, &p) {
		return p
	}
	p := problem(retrysafe.SituationScopeUnresolved)
	const remedy = "The server needs a scope that stays the same: jwt, header:NAME, mtls or aws-access-key in the proxy; " +
		"ScopeHeader, ScopeMTLS, ScopeAWSAccessKey or your own ScopeFunc in the library."
	switch {
	case errors.Is(err, caller.ErrPerRequest):
		p.Detail = "The Authorization header differs on each request, so it cannot identify the caller of a retry. " + remedy
	case errors.Is(err, caller.ErrExpires):
		p.Detail = "The Authorization header holds a token that expires. A retry with the token that replaces it would count " +
			"as another caller's, and would run again. " + remedy
	}
	return &p
}

// scopeOf returns the scope of the request's key: version, caller and operation, as far as they are configured.
func (c *config) scopeOf(r *http.Request) (string, error) {
	name, err := c.callerOf(r)
	if err != nil {
		return "", err
	}
	base := c.callerScope(name)
	if c.Profile.ScopeRoute {
		operation := c.operation(r)
		if len(operation) > maxOperation {
			operation = caller.Digest(operation)
		}
		base += "/" + retrysafe.Scope(operation)
	}
	return base, nil
}

// maxOperation limits how much of an operation is part of a scope, in bytes. Of a longer one the scope has the
// digest, because scopes are limited in length and paths are not.
const maxOperation = 256

// callerScope returns the scope without the operation.
func (c *config) callerScope(caller string) string {
	if strings.ContainsAny(caller, "/%") {
		caller = retrysafe.Scope(caller)
	}
	if c.version != "" {
		return c.version + "/" + caller
	}
	return caller
}

// operation returns the method and the route of a request. The route is its pattern if one is known.
func (c *config) operation(r *http.Request) string {
	route := c.Route
	if c.Profile.ScopePath {
		route = targetOf(r)
	}
	if route == "" {
		route = r.Pattern
	}
	if route == "" {
		route = r.URL.Path
	}
	return r.Method + " " + strings.TrimPrefix(route, r.Method+" ")
}
