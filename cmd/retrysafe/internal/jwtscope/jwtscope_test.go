package jwtscope

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// issuer signs tokens and serves its keys.
type issuer struct {
	*httptest.Server
	t       *testing.T
	fetched atomic.Int64
	mu      sync.Mutex
	set     string
	status  int
	now     time.Time

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
	i := &issuer{t: t, status: 200, now: time.Unix(1_800_000_000, 0)}
	i.rsa, i.another = rsaKeys()
	i.ec, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, i.ed, _ = ed25519.GenerateKey(rand.Reader)
	pinned := i.jwk("pinned", &i.rsa.PublicKey)
	pinned["alg"] = "RS256"
	i.serve(pinned, i.jwk("rsa", &i.rsa.PublicKey), i.jwk("ec", &i.ec.PublicKey), i.jwk("ed", i.ed.Public()))
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.fetched.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		w.WriteHeader(i.status)
		fmt.Fprint(w, i.set)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) serve(keys ...map[string]string) {
	set, _ := json.Marshal(map[string]any{"keys": keys})
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set = string(set)
}

func (i *issuer) jwk(kid string, public crypto.PublicKey) map[string]string {
	b64 := base64.RawURLEncoding.EncodeToString
	switch k := public.(type) {
	case *rsa.PublicKey:
		return map[string]string{"kty": "RSA", "kid": kid, "use": "sig", "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, _ := k.Bytes()
		half := len(point) / 2
		return map[string]string{"kty": "EC", "kid": kid, "crv": k.Curve.Params().Name, "x": b64(point[1 : 1+half]), "y": b64(point[1+half:])}
	case ed25519.PublicKey:
		return map[string]string{"kty": "OKP", "kid": kid, "crv": "Ed25519", "x": b64(k)}
	}
	panic("unknown key")
}

func (i *issuer) clock() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.now
}

func (i *issuer) pass(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now = i.now.Add(d)
}

func (i *issuer) scope(o Options) httpsafe.ScopeFunc {
	i.t.Helper()
	o.Now = i.clock
	f, err := New(i.t.Context(), i.URL, o)
	if err != nil {
		i.t.Fatal(err)
	}
	return f
}

type claims map[string]any

// claims of a good token, changed.
func (i *issuer) claims(changes claims) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "https://login", "sub": "alice", "aud": "payments", "exp": i.clock().Add(time.Hour).Unix()}
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

func TestTokens(t *testing.T) {
	i := newIssuer(t)
	f := i.scope(Options{Issuer: "https://login", Audience: "payments"})
	public, _ := x509.MarshalPKIXPublicKey(&i.rsa.PublicKey)
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	good := sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(nil))
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	with := func(method jwt.SigningMethod, kid, key any, c claims) string {
		return "Bearer " + sign(t, method, kid, key, i.claims(c))
	}
	ago := func(d time.Duration) int64 { return i.clock().Add(-d).Unix() }
	critical := jwt.NewWithClaims(jwt.SigningMethodRS256, i.claims(nil))
	critical.Header["kid"], critical.Header["crit"] = "rsa", []string{"b64"}
	withCrit, _ := critical.SignedString(i.rsa)
	for _, c := range []struct {
		name, authorization string
		good                bool
	}{
		{"RS256", "Bearer " + good, true},
		{"in lower case", "bearer " + good, true},
		{"the algorithm that the key is for", with(jwt.SigningMethodRS256, "pinned", i.rsa, nil), true},
		{"RS512", with(jwt.SigningMethodRS512, "rsa", i.rsa, nil), true},
		{"PS256", with(jwt.SigningMethodPS256, "rsa", i.rsa, nil), true},
		{"ES256", with(jwt.SigningMethodES256, "ec", i.ec, nil), true},
		{"EdDSA", with(jwt.SigningMethodEdDSA, "ed", i.ed, nil), true},
		{"one of many audiences", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"aud": []string{"a", "payments"}}), true},
		{"just expired, within the skew", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"exp": ago(10 * time.Second)}), true},

		{"none", "", false},
		{"another scheme", "Basic " + good, false},
		{"no token", "Bearer ", false},
		{"no JWT", "Bearer abc", false},
		{"too long", "Bearer " + strings.Repeat("a", largestToken+1), false},
		{"alg none", with(jwt.SigningMethodNone, "rsa", jwt.UnsafeAllowNoneSignatureType, nil), false},
		{"alg none, no kid", with(jwt.SigningMethodNone, nil, jwt.UnsafeAllowNoneSignatureType, nil), false},
		{"HS256 with the public key as the secret", with(jwt.SigningMethodHS256, "rsa", asPEM, nil), false},
		{"HS256 with its modulus as the secret", with(jwt.SigningMethodHS256, "rsa", i.rsa.N.Bytes(), nil), false},
		{"a kid of another kind of key", with(jwt.SigningMethodRS256, "ec", i.rsa, nil), false},
		{"another's signature under our kid", with(jwt.SigningMethodRS256, "rsa", i.another, nil), false},
		{"an algorithm that the key is not for", with(jwt.SigningMethodRS512, "pinned", i.rsa, nil), false},
		{"an unknown kid", with(jwt.SigningMethodRS256, "other", i.rsa, nil), false},
		{"a kid that is no text", with(jwt.SigningMethodRS256, 7, i.rsa, nil), false},
		{"no kid, of several keys", with(jwt.SigningMethodRS256, nil, i.rsa, nil), false},
		{"a changed payload", "Bearer " + head + "." + strings.ToUpper(payload) + "." + signature, false},
		{"no signature", "Bearer " + head + "." + payload + ".", false},
		{"a payload of another token", "Bearer " + head + "." + strings.Split(sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(claims{"sub": "bob"})), ".")[1] + "." + signature, false},
		{"critical parameters", "Bearer " + withCrit, false},
		{"expired", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"exp": ago(time.Minute)}), false},
		{"without an end", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"exp": nil}), false},
		{"not yet", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"nbf": ago(-time.Hour)}), false},
		{"another issuer", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"iss": "https://evil"}), false},
		{"no issuer", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"iss": nil}), false},
		{"another audience", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"aud": "mail"}), false},
		{"no audience", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"aud": nil}), false},
		{"no subject", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"sub": nil}), false},
		{"an empty subject", with(jwt.SigningMethodRS256, "rsa", i.rsa, claims{"sub": ""}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			scope, err := ask(f, c.authorization)
			if (err == nil) != c.good {
				t.Errorf("scope %q, error %v", scope, err)
			}
			if err != nil && scope != "" {
				t.Errorf("a refused token has the scope %q", scope)
			}
		})
	}
	if _, err := ask(f, "Bearer "+good, "Bearer "+good); err == nil {
		t.Error("two Authorization headers are accepted")
	}
}

// A renewed token is the same caller; issuer and subject do not run into each other; length does not matter.
//
// Seen to fail with the issuer left out of the scope.
func TestScopes(t *testing.T) {
	i := newIssuer(t)
	f := i.scope(Options{})
	of := func(c claims) string {
		scope, err := ask(f, "Bearer "+sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(c)))
		if err != nil {
			t.Fatal(err)
		}
		return scope
	}
	alice := of(nil)
	if renewed := of(claims{"exp": i.clock().Add(2 * time.Hour).Unix(), "jti": "2"}); renewed != alice {
		t.Errorf("a renewed token has the scope %s, was %s", renewed, alice)
	}
	seen := map[string]bool{alice: true}
	for _, c := range []claims{
		{"sub": "bob"},
		{"iss": "https://other"},
		{"iss": "https://login/alice", "sub": "alice"},
		{"iss": "https://login", "sub": "alice/alice"},
		{"sub": strings.Repeat("x", 5000)},
	} {
		scope := of(c)
		if seen[scope] || len(scope) > 100 || strings.Contains(scope, "alice") {
			t.Errorf("scope of %v: %s", c, scope)
		}
		seen[scope] = true
	}
}

// Seen to fail with the refresh for an unknown kid taken out, and with its pause taken out.
func TestKeysAreFetchedAnewWhenNeeded(t *testing.T) {
	i := newIssuer(t)
	f := i.scope(Options{})
	old := "Bearer " + sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(nil))
	rotated := "Bearer " + sign(t, jwt.SigningMethodRS256, "new", i.another, i.claims(nil))
	i.serve(i.jwk("new", &i.another.PublicKey))
	for range 50 { // too early to ask again
		if _, err := ask(f, rotated); err == nil {
			t.Fatal("an unknown key is accepted")
		}
	}
	want(t, "fetched", i.fetched.Load(), 1)
	i.pass(pauseBetween)
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			if _, err := ask(f, rotated); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	want(t, "fetched", i.fetched.Load(), 2)
	if _, err := ask(f, old); err == nil {
		t.Error("a withdrawn key is accepted")
	}
}

// When the server cannot be reached, known keys serve on for a time, and no longer.
func TestKeysOutliveTheirServerForATime(t *testing.T) {
	i := newIssuer(t)
	v := &verifier{parser: jwt.NewParser(Options{Now: i.clock}.parserOptions()...)}
	var err error
	if v.keys, err = newKeySet(t.Context(), i.URL, i.clock); err != nil {
		t.Fatal(err)
	}
	token := "Bearer " + sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(claims{"exp": i.clock().Add(100 * time.Hour).Unix()}))
	i.mu.Lock()
	i.status = 500
	i.mu.Unlock()
	i.pass(refreshAfter + time.Second)
	if _, err := ask(v.scope, token); err != nil {
		t.Errorf("while the server is down: %v", err)
	}
	if done := v.keys.refresh(); done != nil {
		<-done
	}
	if i.fetched.Load() < 2 {
		t.Error("old keys are not fetched anew")
	}
	i.pass(discardAfter)
	if _, err := ask(v.scope, token); err == nil {
		t.Error("the keys serve for ever")
	}
}

func TestSetsThatAreRefused(t *testing.T) {
	i := newIssuer(t)
	small, _ := rsa.GenerateKey(rand.Reader, 1024)
	without := func(m map[string]string, name, value string) map[string]string { m[name] = value; return m }
	cases := map[string]string{"no JSON": "<html>", "no keys": `{"keys":[]}`, "too long": `{"keys":[` + strings.Repeat(" ", largestSet) + `]}`}
	for name, key := range map[string]map[string]string{
		"a short RSA key":    i.jwk("k", &small.PublicKey),
		"a key to encrypt":   without(i.jwk("k", &i.rsa.PublicKey), "use", "enc"),
		"a symmetric key":    {"kty": "oct", "kid": "k", "k": "c2VjcmV0"},
		"a key for HS256":    without(i.jwk("k", &i.rsa.PublicKey), "alg", "HS256"),
		"an unknown curve":   without(i.jwk("k", &i.ec.PublicKey), "crv", "P-192"),
		"a point off curve":  without(i.jwk("k", &i.ec.PublicKey), "y", base64.RawURLEncoding.EncodeToString(make([]byte, 32))),
		"a short coordinate": without(i.jwk("k", &i.ec.PublicKey), "x", "AQ"),
		"a small exponent":   without(i.jwk("k", &i.rsa.PublicKey), "e", "AQ"),
		"a short OKP key":    without(i.jwk("k", i.ed.Public()), "x", "AQ"),
	} {
		set, _ := json.Marshal(map[string]any{"keys": []any{key}})
		cases[name] = string(set)
	}
	twice, _ := json.Marshal(map[string]any{"keys": []any{i.jwk("k", &i.rsa.PublicKey), i.jwk("k", &i.another.PublicKey)}})
	cases["a kid twice"] = string(twice)
	for name, set := range cases {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, set) }))
			defer server.Close()
			if _, err := New(t.Context(), server.URL, Options{}); err == nil {
				t.Error("it is accepted")
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, address := range []string{"", "file:///etc/passwd", "http://127.0.0.1:1/", "nonsense"} {
		if _, err := New(ctx, address, Options{}); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
}

// What redirects from https to http is not followed.
func TestRedirectsStaySecure(t *testing.T) {
	check := newClient("https").CheckRedirect
	to := func(url string) *http.Request { r, _ := http.NewRequest("GET", url, nil); return r }
	if check(to("http://x/"), nil) == nil {
		t.Error("https leads to http")
	}
	if err := check(to("https://x/"), nil); err != nil {
		t.Error(err)
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
