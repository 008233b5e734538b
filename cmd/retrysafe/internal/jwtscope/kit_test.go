package jwtscope

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// issuer signs tokens and serves its keys, without a network.
type issuer struct {
	t       *testing.T
	fetched atomic.Int64
	mu      sync.Mutex
	set     string
	status  int

	rsa     *rsa.PrivateKey
	ec      *ecdsa.PrivateKey
	ed      ed25519.PrivateKey
	another *rsa.PrivateKey
}

// rsaKeys are slow to make.
var rsaKeys = sync.OnceValues(func() (a, b *rsa.PrivateKey) {
	a, _ = rsa.GenerateKey(rand.Reader, 2048)
	b, _ = rsa.GenerateKey(rand.Reader, 2048)
	return a, b
})

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t, status: 200}
	i.rsa, i.another = rsaKeys()
	i.ec, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, i.ed, _ = ed25519.GenerateKey(rand.Reader)
	i.serve(
		i.jwk("pinned", &i.rsa.PublicKey, "alg", "RS256"), i.jwk("rsa", &i.rsa.PublicKey),
		i.jwk("ec", &i.ec.PublicKey), i.jwk("ed", i.ed.Public()),
		i.jwk("enc", &i.another.PublicKey, "use", "enc"), i.jwk("tls", &i.another.PublicKey, "use", "tls"),
		map[string]string{"kty": "oct", "kid": "oct", "k": "c2VjcmV0"}, map[string]string{"kty": "new"},
	)
	return i
}

// RoundTrip answers those who ask for the keys.
func (i *issuer) RoundTrip(*http.Request) (*http.Response, error) {
	i.fetched.Add(1)
	i.mu.Lock()
	defer i.mu.Unlock()
	w := httptest.NewRecorder()
	w.WriteHeader(i.status)
	fmt.Fprint(w, i.set)
	return w.Result(), nil
}

func (i *issuer) serve(keys ...map[string]string) {
	set, _ := json.Marshal(map[string]any{"keys": keys})
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set = string(set)
}

// jwk describes a key; changes are names and values.
func (i *issuer) jwk(kid string, public crypto.PublicKey, changes ...string) map[string]string {
	j := plainJWK(public)
	j["kid"] = kid
	for n := 0; n < len(changes); n += 2 {
		j[changes[n]] = changes[n+1]
	}
	return j
}

func plainJWK(public crypto.PublicKey) map[string]string {
	b64 := base64.RawURLEncoding.EncodeToString
	switch k := public.(type) {
	case *rsa.PublicKey:
		return map[string]string{"kty": "RSA", "use": "sig", "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, _ := k.Bytes()
		half := len(point) / 2
		return map[string]string{
			"kty": "EC", "crv": k.Curve.Params().Name, "x": b64(point[1 : 1+half]),
			"y": b64(point[1+half:]),
		}
	case ed25519.PublicKey:
		return map[string]string{"kty": "OKP", "crv": "Ed25519", "x": b64(k)}
	}
	panic("unknown key")
}

func (i *issuer) answer(status int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status = status
}

func (i *issuer) scope(o Options) httpsafe.ScopeFunc {
	i.t.Helper()
	o.Transport = i
	f, err := New(i.t.Context(), "https://login/jwks.json", o)
	if err != nil {
		i.t.Fatal(err)
	}
	return f
}

type claims map[string]any

// claims of a good token, changed.
func (i *issuer) claims(changes claims) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "https://login", "sub": "alice", "aud": "payments", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range changes {
		if value == nil {
			delete(c, name)
			continue
		}
		c[name] = value
	}
	return c
}

func sign(t *testing.T, method jwt.SigningMethod, kid any, key any, c jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != nil {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func ask(f httpsafe.ScopeFunc, authorization ...string) (string, error) {
	r := httptest.NewRequest("POST", "/", nil)
	for _, a := range authorization {
		r.Header.Add("Authorization", a)
	}
	return f(r)
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
