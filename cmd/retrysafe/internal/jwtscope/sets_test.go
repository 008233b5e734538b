package jwtscope

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

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
		"a symmetric key":         {map[string]string{"kty": "oct", "kid": "k", "k": "c2VjcmV0"}, "not a public key"},
		"a published private key": {published, "not a public key"},
		"a key for HS256":         {i.jwk("k", &i.rsa.PublicKey, "alg", "HS256"), "HS256"},
		"an unknown curve":        {i.jwk("k", &i.ec.PublicKey, "crv", "P-192"), "no key of a supported type"},
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
		"no keys":        {`{"keys":[]}`, "no key of a supported type"},
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
