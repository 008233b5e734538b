// Package jwtscope tells callers apart by their JSON Web Tokens: verified against the issuer's public keys, a caller is
// who issued the token and whom it is about, so that a renewed token is the same caller.
package jwtscope

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// Options of New.
type Options struct {
	// Issuer and Audience that tokens must have. Default: any.
	Issuer, Audience string
	// Transport fetches the key set. Default http.DefaultTransport.
	Transport http.RoundTripper
	// FailedFunc is told why the set could not be fetched again; meanwhile the last one serves, for 24 hours. Default: nobody.
	FailedFunc func(error)
}

const (
	clockSkew    = 30 * time.Second // that issuer and proxy may disagree by
	largestToken = 16 << 10
)

// New fetches the key set and returns the scope: SHA-256 over issuer and subject of a bearer token whose signature,
// algorithm, times, issuer and audience are right. A token must have an expiry, an issuer and a subject. The set is kept
// up to date until ctx ends.
func New(ctx context.Context, jwksURL string, o Options) (httpsafe.ScopeFunc, error) {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.FailedFunc == nil {
		o.FailedFunc = func(error) {}
	}
	keys, err := newKeySet(ctx, jwksURL, o)
	if err != nil {
		return nil, fmt.Errorf("fetch the JWK set: %w", err)
	}
	v := &verifier{keys: keys, parser: jwt.NewParser(o.parserOptions()...)}
	return v.scope, nil
}

// algorithms that are accepted at all: none that a public key could be abused with as a shared secret.
func algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

func (o Options) parserOptions() []jwt.ParserOption {
	options := []jwt.ParserOption{
		jwt.WithValidMethods(algorithms()),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(clockSkew),
		jwt.WithStrictDecoding(),
	}
	if o.Issuer != "" {
		options = append(options, jwt.WithIssuer(o.Issuer))
	}
	if o.Audience != "" {
		options = append(options, jwt.WithAudience(o.Audience))
	}
	return options
}

type verifier struct {
	keys   *keySet
	parser *jwt.Parser
}

func (v *verifier) scope(r *http.Request) (string, error) {
	token, err := bearer(r.Header)
	if err != nil {
		return "", err
	}
	var claims jwt.RegisteredClaims
	_, err = v.parser.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) {
		return v.keyFor(r.Context(), t)
	})
	switch {
	case err != nil:
		return "", err
	case claims.Issuer == "" || claims.Subject == "":
		return "", errors.New("the token names no issuer or no subject")
	}
	// A digest, so that any length fits and no name of a person is stored.
	sum := sha256.Sum256([]byte(retrysafe.Scope(claims.Issuer, claims.Subject)))
	return "jwt:" + hex.EncodeToString(sum[:]), nil
}

// keyFor returns the key that the token says it is signed with, if that key may be used with the token's algorithm.
func (v *verifier) keyFor(ctx context.Context, t *jwt.Token) (any, error) {
	if _, critical := t.Header["crit"]; critical {
		return nil, errors.New("the token has critical header parameters that are not known here")
	}
	id, _ := t.Header["kid"].(string)
	k, err := v.keys.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if !isFor(k, t.Method) {
		return nil, fmt.Errorf("the key is not for %s", t.Method.Alg())
	}
	return k.Key(), nil
}

// isFor tells whether the key says, by its algorithm or its curve, that it is for that method. That its kind is right
// is checked by the method.
func isFor(k jwkset.JWK, m jwt.SigningMethod) bool {
	if alg := k.Marshal().ALG.String(); alg != "" {
		return alg == m.Alg()
	}
	ec, ok := m.(*jwt.SigningMethodECDSA)
	return !ok || k.Marshal().CRV.String() == fmt.Sprintf("P-%d", ec.CurveBits)
}

// bearer returns the token of the one Authorization header.
func bearer(h http.Header) (string, error) {
	values := h["Authorization"]
	if len(values) != 1 {
		return "", errors.New("there must be one Authorization header")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > largestToken {
		return "", errors.New("there must be a bearer token")
	}
	return token, nil
}
