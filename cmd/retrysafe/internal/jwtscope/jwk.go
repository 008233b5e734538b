package jwtscope

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// key is a public key and the algorithms that it may be used with. A token names its algorithm itself: only the key may
// decide whether that is acceptable.
type key struct {
	public     crypto.PublicKey
	algorithms []string
}

// algorithms that are accepted at all: none that a public key could be abused with as a shared secret.
func algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// jwk is a JSON Web Key, as far as it matters for verifying.
type jwk struct {
	Kty, Use, Alg, Kid string
	N, E               string   // RSA
	Crv, X, Y          string   // EC, OKP
	KeyOps             []string `json:"key_ops"`
}

const smallestRSA = 2048

// parseKeys reads a JWK set. Keys that are not for verifying, or that are of no kind known here, are left out; a set
// without any other is an error.
func parseKeys(set []byte) (map[string]key, error) {
	var parsed struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(set, &parsed); err != nil {
		return nil, fmt.Errorf("not a JWK set: %w", err)
	}
	keys := map[string]key{}
	var last error
	for _, raw := range parsed.Keys {
		id, k, err := parseKey(raw)
		if err != nil {
			last = err
			continue
		}
		if _, twice := keys[id]; twice {
			return nil, fmt.Errorf("two keys have the kid %q", id)
		}
		keys[id] = k
	}
	if len(keys) == 0 {
		return nil, errors.Join(errors.New("no key in the set can verify signatures"), last)
	}
	return keys, nil
}

func parseKey(raw []byte) (string, key, error) {
	var j jwk
	if err := json.Unmarshal(raw, &j); err != nil {
		return "", key{}, err
	}
	if j.Use != "" && j.Use != "sig" || len(j.KeyOps) > 0 && !slices.Contains(j.KeyOps, "verify") {
		return "", key{}, fmt.Errorf("key %q is not for signatures", j.Kid)
	}
	k, err := j.key()
	if err != nil {
		return "", key{}, fmt.Errorf("key %q: %w", j.Kid, err)
	}
	if j.Alg != "" {
		if !slices.Contains(k.algorithms, j.Alg) {
			return "", key{}, fmt.Errorf("key %q: algorithm %q is not accepted", j.Kid, j.Alg)
		}
		k.algorithms = []string{j.Alg}
	}
	return j.Kid, k, nil
}

func (j jwk) key() (key, error) {
	switch j.Kty {
	case "RSA":
		return j.rsa()
	case "EC":
		return j.ec()
	case "OKP":
		return j.okp()
	}
	return key{}, fmt.Errorf("kind %q is not accepted", j.Kty)
}

func (j jwk) rsa() (key, error) {
	n, err1 := number(j.N)
	e, err2 := number(j.E)
	if err := errors.Join(err1, err2); err != nil {
		return key{}, err
	}
	if n.BitLen() < smallestRSA {
		return key{}, fmt.Errorf("%d bits are too few; at least %d", n.BitLen(), smallestRSA)
	}
	if !e.IsInt64() || e.Int64() < 3 || e.Int64() >= 1<<31 || e.Int64()%2 == 0 {
		return key{}, errors.New("the exponent is not acceptable")
	}
	public := &rsa.PublicKey{N: n, E: int(e.Int64())}
	return key{public, []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}}, nil
}

func (j jwk) ec() (key, error) {
	curves := map[string]struct {
		curve elliptic.Curve
		alg   string
	}{"P-256": {elliptic.P256(), "ES256"}, "P-384": {elliptic.P384(), "ES384"}, "P-521": {elliptic.P521(), "ES512"}}
	c, ok := curves[j.Crv]
	if !ok {
		return key{}, fmt.Errorf("curve %q is not accepted", j.Crv)
	}
	x, err1 := base64.RawURLEncoding.DecodeString(j.X)
	y, err2 := base64.RawURLEncoding.DecodeString(j.Y)
	if err := errors.Join(err1, err2); err != nil {
		return key{}, err
	}
	size := (c.curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size {
		return key{}, errors.New("the coordinates have the wrong length")
	}
	public, err := ecdsa.ParseUncompressedPublicKey(c.curve, slices.Concat([]byte{4}, x, y))
	if err != nil {
		return key{}, err
	}
	return key{public, []string{c.alg}}, nil
}

func (j jwk) okp() (key, error) {
	if j.Crv != "Ed25519" {
		return key{}, fmt.Errorf("curve %q is not accepted", j.Crv)
	}
	x, err := base64.RawURLEncoding.DecodeString(j.X)
	if err != nil {
		return key{}, err
	}
	if len(x) != ed25519.PublicKeySize {
		return key{}, errors.New("the key has the wrong length")
	}
	return key{ed25519.PublicKey(x), []string{"EdDSA"}}, nil
}

func number(s string) (*big.Int, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	return new(big.Int).SetBytes(b), nil
}
