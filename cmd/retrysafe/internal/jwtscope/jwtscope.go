// Package jwtscope identifies callers by their JSON Web Tokens. A token is verified against the public keys of its
// issuer; the caller is the issuer and the subject of the token, so that a renewed token is the same caller.
//
//	jwtscope.go  New, and the verification of a token
//	keyset.go    the keys of the issuer: fetched, checked, refreshed
package jwtscope

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	// Claim names the caller, besides the issuer. Its value must be text, or a whole number. Default: the subject, "sub".
	Claim string
	// Transport fetches the key set. Default http.DefaultTransport.
	Transport http.RoundTripper
	// FailedFunc receives the error when the set cannot be fetched again. The last set is used meanwhile, for up to
	// 24 hours. Default: the error is dropped.
	FailedFunc func(error)
}

const (
	clockSkew    = 30 * time.Second // between the clocks of issuer and proxy
	largestToken = 16 << 10
)

// New fetches the key set and returns the scope of a request: SHA-256 over issuer and subject of its bearer token, or over
// its issuer and the claim that Options name.
// The signature, algorithm, times, issuer and audience of the token are verified, and it must have an expiry, an
// issuer and a subject. New refreshes the set every ten minutes until ctx ends. The error says why the first fetch
// failed, or that no key in the set can be used.
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
	v := &verifier{keys: keys, parser: jwt.NewParser(o.parserOptions()...), claim: o.Claim}
	return v.scope, nil
}

// algorithms returns the accepted ones. HMAC is not among them: an attacker could sign with the public key as the
// shared secret.
func algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

func (o Options) parserOptions() []jwt.ParserOption {
	options := []jwt.ParserOption{
		jwt.WithValidMethods(algorithms()),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(clockSkew),
		jwt.WithStrictDecoding(),
		jwt.WithJSONNumber(),
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
	claim  string // "": the subject
}

func (v *verifier) scope(r *http.Request) (string, error) {
	token, err := bearer(r.Header)
	if err != nil {
		return "", err
	}
	claims := jwt.MapClaims{}
	_, err = v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		return v.keyFor(r.Context(), t)
	})
	if err != nil {
		return "", err
	}
	issuer, _ := claims.GetIssuer()
	parts := []string{issuer, v.named(claims)}
	if slices.Contains(parts, "") {
		return "", fmt.Errorf("the token names no issuer, or has no text as its %s", v.claimName())
	}
	if v.claimName() != subject {
		parts = append(parts, v.claim)
	}
	// A digest, so that the length is fixed and no personal name is stored.
	sum := sha256.Sum256([]byte(retrysafe.Scope(parts...)))
	return "jwt:" + hex.EncodeToString(sum[:]), nil
}

const subject = "sub"

func (v *verifier) claimName() string { return cmp.Or(v.claim, subject) }

// named returns the value of the claim that names the caller; "" if it is missing or neither text nor a whole number.
func (v *verifier) named(claims jwt.MapClaims) string {
	switch value := claims[v.claimName()].(type) {
	case string:
		return value
	case json.Number:
		if _, err := value.Int64(); err == nil && v.claimName() != subject { // RFC 7519, section 4.1.2: a subject is text
			return value.String()
		}
	}
	return ""
}

// keyFor returns the key that the token says it is signed with, if that key may be used with the token's algorithm.
func (v *verifier) keyFor(ctx context.Context, t *jwt.Token) (any, error) {
	if _, critical := t.Header["crit"]; critical {
		return nil, errors.New("the token has critical header parameters that are not supported")
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

// isFor reports whether the algorithm or the curve of the key fits the method. The method itself checks the type of
// the key.
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
