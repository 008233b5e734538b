package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Secret signs webhooks, verifies them, or both. Printing or logging a Secret shows its kind, never its value.
type Secret struct {
	shared  []byte             // HMAC-SHA256: v1
	private ed25519.PrivateKey // v1a
	public  ed25519.PublicKey
}

// Secrets are the secrets of one sender or one receiver. To rotate a secret without downtime, use two at a time: a
// sender signs with all of its secrets, and a receiver accepts a signature by any of its own. First add the new
// secret to the receiver, then change the sender.
type Secrets []Secret

// The prefixes of encoded secrets.
const (
	prefixShared  = "whsec_" // 24 to 64 bytes, known to both sides
	prefixPrivate = "whsk_"  // an ed25519 private key, for the sender
	prefixPublic  = "whpk_"  // its public key, for the receiver
)

// ParseSecrets parses secrets in the encoding of Standard Webhooks, a prefix and base64: whsec_ and a shared secret
// of 24 to 64 bytes, whsk_ and an ed25519 private key (32 or 64 bytes), or whpk_ and a public key. It returns an
// error if there is no secret or one is malformed. Errors never contain the secret.
func ParseSecrets(texts ...string) (Secrets, error) {
	if len(texts) == 0 {
		return nil, errors.New("webhook: ParseSecrets needs at least one secret")
	}
	all := make(Secrets, len(texts))
	for i, text := range texts {
		s, err := parseSecret(text)
		if err != nil {
			return nil, fmt.Errorf("webhook: secret %d of %d: %w", i+1, len(texts), err)
		}
		all[i] = s
	}
	return all, nil
}

// NewSecret returns a random shared secret of 32 bytes, in the encoding that ParseSecrets reads.
func NewSecret() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails: crypto/rand crashes the program first
	return prefixShared + base64.StdEncoding.EncodeToString(b)
}

// NewKeyPair returns a random ed25519 key pair, in the encoding that ParseSecrets reads: private for the sender,
// public for the receivers.
func NewKeyPair() (private, public string) {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	key := ed25519.NewKeyFromSeed(seed)
	return prefixPrivate + base64.StdEncoding.EncodeToString(seed),
		prefixPublic + base64.StdEncoding.EncodeToString(key[ed25519.SeedSize:])
}

func parseSecret(text string) (Secret, error) {
	kind, encoded, _ := strings.Cut(text, "_")
	b, err := base64.StdEncoding.Strict().DecodeString(encoded)
	switch kind += "_"; {
	case kind != prefixShared && kind != prefixPrivate && kind != prefixPublic:
		return Secret{}, errors.New("the prefix is not whsec_, whsk_ or whpk_")
	case err != nil:
		return Secret{}, errors.New("the text after the prefix is not base64")
	case kind == prefixShared && len(b) >= 24 && len(b) <= 64:
		return Secret{shared: b}, nil
	case kind == prefixPrivate && len(b) == ed25519.SeedSize:
		return newPrivate(ed25519.NewKeyFromSeed(b)), nil
	case kind == prefixPrivate && len(b) == ed25519.PrivateKeySize:
		key := newPrivate(ed25519.NewKeyFromSeed(b[:ed25519.SeedSize]))
		if !key.private.Equal(ed25519.PrivateKey(b)) {
			return Secret{}, errors.New("the two halves of the private key do not match")
		}
		return key, nil
	case kind == prefixPublic && len(b) == ed25519.PublicKeySize:
		return Secret{public: b}, nil
	}
	return Secret{}, fmt.Errorf("a secret with the prefix %s cannot have %d bytes", kind, len(b))
}

func newPrivate(key ed25519.PrivateKey) Secret {
	return Secret{private: key, public: ed25519.PublicKey(key[ed25519.SeedSize:])}
}

// Sign returns the value of the webhook-signature header: one signature by each secret that can sign, separated by
// spaces. It is empty if no secret can sign. id must not contain a full stop, because a full stop separates the
// signed parts.
func (all Secrets) Sign(id string, at time.Time, body []byte) string {
	content := signed(id, strconv.FormatInt(at.Unix(), 10), body)
	var signatures []string
	for _, s := range all {
		switch {
		case s.shared != nil:
			signatures = append(signatures, signature{versionShared, s.mac(content)}.String())
		case s.private != nil:
			signatures = append(signatures, signature{versionKeyPair, ed25519.Sign(s.private, content)}.String())
		}
	}
	return strings.Join(signatures, " ")
}

// verify reports whether one of the signatures was made by one of the secrets. Its duration does not depend on which
// one.
func (all Secrets) verify(content []byte, signatures []signature) (ok bool) {
	for _, s := range all {
		var mac []byte
		if s.shared != nil {
			mac = s.mac(content)
		}
		for _, given := range signatures {
			switch {
			case given.version == versionShared && s.shared != nil:
				ok = hmac.Equal(given.bytes, mac) || ok
			case given.version == versionKeyPair && s.public != nil:
				ok = ed25519.Verify(s.public, content, given.bytes) || ok
			}
		}
	}
	return ok
}

func (s Secret) mac(content []byte) []byte {
	h := hmac.New(sha256.New, s.shared)
	h.Write(content)
	return h.Sum(nil)
}

// signed is what a signature is over.
func signed(id, timestamp string, body []byte) []byte {
	content := make([]byte, 0, len(id)+len(timestamp)+len(body)+2)
	content = append(append(content, id...), '.')
	content = append(append(content, timestamp...), '.')
	return append(content, body...)
}

// String says of which kind the secret is.
func (s Secret) String() string {
	switch {
	case s.shared != nil:
		return prefixShared + "…"
	case s.private != nil:
		return prefixPrivate + "…"
	case s.public != nil:
		return prefixPublic + base64.StdEncoding.EncodeToString(s.public)
	}
	return "no secret"
}

// GoString hides the secret from %#v too.
func (s Secret) GoString() string { return "webhook.Secret(" + s.String() + ")" }

// LogValue hides the secret from log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
