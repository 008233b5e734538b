package jwtscope

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
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
	"testing/synctest"
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
		return map[string]string{"kty": "EC", "crv": k.Curve.Params().Name, "x": b64(point[1 : 1+half]), "y": b64(point[1+half:])}
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

// Seen to fail with the look at crit, at a key's use, algorithm or curve, and at expiry or subject taken out, one by one.
func TestTokens(t *testing.T) {
	i := newIssuer(t)
	f := i.scope(Options{Issuer: "https://login", Audience: "payments"})
	public, _ := x509.MarshalPKIXPublicKey(&i.rsa.PublicKey)
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	good := sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(nil))
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	bobs := strings.Split(sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(claims{"sub": "bob"})), ".")[1]
	with := func(method jwt.SigningMethod, kid, key any, c claims) string {
		return "Bearer " + sign(t, method, kid, key, i.claims(c))
	}
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
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
		{"a key that is for encryption", with(jwt.SigningMethodRS256, "enc", i.another, nil), false},
		{"a key that is for something else", with(jwt.SigningMethodRS256, "tls", i.another, nil), false},
		{"HS256 with a secret of the set", with(jwt.SigningMethodHS256, "oct", []byte("secret"), nil), false},
		{"ES384 with a key of P-256", "Bearer " + i.crossed(), false},
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
		{"a payload of another token", "Bearer " + head + "." + bobs + "." + signature, false},
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
	if renewed := of(claims{"exp": time.Now().Add(2 * time.Hour).Unix(), "jti": "2"}); renewed != alice {
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

// crossed is a token for the key of P-256, with its right signature but over SHA-384 and written as long as P-384's.
func (i *issuer) crossed() string {
	token := jwt.NewWithClaims(jwt.SigningMethodES384, i.claims(nil))
	token.Header["kid"] = "ec"
	text, _ := token.SigningString()
	sum := sha512.Sum384([]byte(text))
	r, s, _ := ecdsa.Sign(rand.Reader, i.ec, sum[:])
	signature := make([]byte, 96)
	r.FillBytes(signature[:48])
	s.FillBytes(signature[48:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// Seen to fail with the rule for a set with one key taken out, and with the look at its algorithm.
func TestTokensWithoutKidAreGoodForTheOneKey(t *testing.T) {
	i := newIssuer(t)
	i.serve(i.jwk("only", &i.rsa.PublicKey, "alg", "RS256"), i.jwk("enc", &i.another.PublicKey, "use", "enc"))
	f := i.scope(Options{})
	if _, err := ask(f, "Bearer "+sign(t, jwt.SigningMethodRS256, nil, i.rsa, i.claims(nil))); err != nil {
		t.Error(err)
	}
	for name, token := range map[string]string{
		"another algorithm": sign(t, jwt.SigningMethodRS512, nil, i.rsa, i.claims(nil)),
		"another key":       sign(t, jwt.SigningMethodRS256, nil, i.another, i.claims(nil)),
	} {
		if _, err := ask(f, "Bearer "+token); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// Seen to fail with the fetch for an unknown kid taken out, and with its pause taken out.
func TestKeysAreFetchedAnewWhenNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		f := i.scope(Options{})
		old := "Bearer " + sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(nil))
		rotated := "Bearer " + sign(t, jwt.SigningMethodRS256, "new", i.another, i.claims(nil))
		ask(f, rotated)
		i.serve(i.jwk("new", &i.another.PublicKey))
		for range 50 { // too early to ask again
			if _, err := ask(f, rotated); err == nil {
				t.Fatal("an unknown key is accepted")
			}
		}
		want(t, "fetched", i.fetched.Load(), 2)
		time.Sleep(pauseBetween)
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() {
				if _, err := ask(f, rotated); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		want(t, "fetched", i.fetched.Load(), 3)
		if _, err := ask(f, old); err == nil {
			t.Error("a withdrawn key is accepted")
		}
	})
}

// A withdrawn key dies although nobody asks for a new one. An answer without keys withdraws none.
//
// Seen to fail with the interval taken out, and with sets without keys accepted.
func TestWithdrawnKeysDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		f := i.scope(Options{})
		old := "Bearer " + sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, i.claims(nil))
		i.serve()
		time.Sleep(refreshEvery + time.Second)
		if _, err := ask(f, old); err != nil {
			t.Errorf("after a set without keys: %v", err)
		}
		i.serve(i.jwk("new", &i.another.PublicKey))
		time.Sleep(refreshEvery)
		want(t, "fetched", i.fetched.Load(), 3)
		if _, err := ask(f, old); err == nil {
			t.Error("a withdrawn key is accepted")
		}
	})
}

// When the server cannot be reached, known keys serve on for a time, and no longer.
//
// Seen to fail with discardAfter taken out, and with FailedFunc told nothing.
func TestKeysOutliveTheirServerForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		var failures atomic.Int64
		f := i.scope(Options{FailedFunc: func(error) { failures.Add(1) }})
		lasting := i.claims(claims{"exp": time.Now().Add(100 * time.Hour).Unix()})
		token := "Bearer " + sign(t, jwt.SigningMethodRS256, "rsa", i.rsa, lasting)
		i.answer(500)
		time.Sleep(discardAfter - time.Second)
		if _, err := ask(f, token); err != nil {
			t.Errorf("while the server is down: %v", err)
		}
		want(t, "failures told", failures.Load(), int64(discardAfter/refreshEvery)-1)
		time.Sleep(2 * time.Second)
		if _, err := ask(f, token); err == nil {
			t.Error("the keys serve for ever")
		}
		i.answer(200)
		time.Sleep(pauseBetween)
		if _, err := ask(f, token); err != nil {
			t.Errorf("when the server is back: %v", err)
		}
	})
}

// What keeps the keys up to date ends with its context, and at once if New fails: a bubble waits for what runs in it.
//
// Seen to fail with the library given another context, and with the stop after a failure taken out.
func TestNothingGoesOnAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t)
		i.answer(500)
		if _, err := New(context.Background(), "https://login/jwks.json", Options{Transport: i}); err == nil {
			t.Error("it does without keys")
		}
		i.answer(200)
		ctx, stop := context.WithCancel(context.Background())
		if _, err := New(ctx, "https://login/jwks.json", Options{Transport: i}); err != nil {
			t.Error(err)
		}
		stop()
		time.Sleep(2 * refreshEvery)
		want(t, "fetched", i.fetched.Load(), 2)
	})
}

// Seen to fail with the limit and each check of fitness taken out, one by one.
func TestSetsThatAreRefused(t *testing.T) {
	i := newIssuer(t)
	small, _ := rsa.GenerateKey(rand.Reader, 1024)
	published := i.jwk("k", i.ed.Public(), "d", base64.RawURLEncoding.EncodeToString(i.ed.Seed()))
	for name, c := range map[string]struct {
		key  map[string]string
		says string
	}{
		"a short RSA key":         {i.jwk("k", &small.PublicKey), `key "k": 1024 bits`},
		"a key to encrypt":        {i.jwk("k", &i.rsa.PublicKey, "use", "enc"), "not for signatures"},
		"a symmetric key":         {map[string]string{"kty": "oct", "kid": "k", "k": "c2VjcmV0"}, "no public key"},
		"a published private key": {published, "no public key"},
		"a key for HS256":         {i.jwk("k", &i.rsa.PublicKey, "alg", "HS256"), "HS256"},
		"an unknown curve":        {i.jwk("k", &i.ec.PublicKey, "crv", "P-192"), "none of a known kind"},
		"a point off curve":       {i.jwk("k", &i.ec.PublicKey, "y", "AQ"), "curve"},
		"a small exponent":        {i.jwk("k", &i.rsa.PublicKey, "e", "AQ"), `"e"`},
		"a short OKP key":         {i.jwk("k", i.ed.Public(), "x", "AQ"), "32 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			i.serve(c.key)
			wantRefusal(t, i, c.says)
		})
	}
	good, _ := json.Marshal(i.jwk("k", &i.rsa.PublicKey))
	for name, c := range map[string]struct{ set, says string }{
		"no JSON":        {"<html>", "decode"},
		"no keys":        {`{"keys":[]}`, "none of a known kind"},
		"for encryption": {`{"keys":[{"key_ops":["encrypt"],` + string(good[1:]) + `]}`, "not for signatures"},
		"too long":       {`{"keys":[` + strings.Repeat(" ", largestSet) + string(good) + `]}`, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			i.set = c.set
			wantRefusal(t, i, c.says)
		})
	}
}

func wantRefusal(t *testing.T, i *issuer, says string) {
	t.Helper()
	_, err := New(t.Context(), "https://login/jwks.json", Options{Transport: i})
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want an error that says %q", err, says)
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	for _, address := range []string{
		"", "nonsense", "/jwks.json", "file:///etc/passwd", "ftp://login/jwks.json", "http://127.0.0.1:1/",
	} {
		if _, err := New(t.Context(), address, Options{}); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
}

// Seen to fail with the timeout taken out.
func TestASilentServerIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := New(t.Context(), "https://login/jwks.json", Options{Transport: silent{}}); err == nil {
			t.Error("it does without keys")
		}
		want(t, "waited", time.Since(began), fetchTimeout)
	})
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// What redirects from https to http is not followed.
//
// Seen to fail with the check taken out.
func TestRedirectsStaySecure(t *testing.T) {
	for target, followed := range map[string]bool{"https://keys/jwks.json": true, "http://keys/jwks.json": false} {
		i := newIssuer(t)
		transport := redirecting{i, "login", target}
		if _, err := New(t.Context(), "https://login/jwks.json", Options{Transport: transport}); (err == nil) != followed {
			t.Errorf("redirected to %s: %v", target, err)
		}
		want(t, "asked "+target, i.fetched.Load() == 1, followed)
	}
}

// redirecting sends those who ask one host to another address.
type redirecting struct {
	*issuer
	from, to string
}

func (d redirecting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != d.from {
		return d.issuer.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	http.Redirect(w, r, d.to, http.StatusFound)
	return w.Result(), nil
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
