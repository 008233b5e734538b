package retrysafe

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// MaxKeyBytes is the longest Key.Scope and the longest Key.ID that a Guard accepts, each.
const MaxKeyBytes = 1024

// Key names one operation: an ID chosen by the caller, inside a scope that belongs to that caller alone.
// Both are bytes: they are compared as they are, without case folding, trimming or Unicode normalisation.
//
// A Key keeps its secret: printing or logging one shows its Digest, never the ID.
type Key struct {
	// Scope is the namespace of the ID, taken from the authenticated caller, never from what a request merely
	// claims. Scope (the function) builds one from parts. Empty is allowed: then all callers share one namespace.
	Scope string
	// ID is what the caller sent or what was derived from the request. 1 to MaxKeyBytes bytes.
	ID string
}

// Digest identifies a Key without revealing it: the first 16 bytes of SHA-256 over the length-prefixed scope and ID.
// Stores index records by it, and logs and support tools show it.
type Digest [16]byte

// Owner is the random name of one attempt. It makes Claim repeatable: a claim that is repeated with the same Owner
// returns the same lease.
type Owner [16]byte

// Scope joins parts (a version, a caller, an operation) into one scope. Different parts never give the same scope:
// a slash or a percent sign inside a part is escaped. No parts are the same as one empty part.
//
//	retrysafe.Scope("v2", "tenant-17", "POST /payments")   // "v2/tenant-17/POST %2Fpayments"
func Scope(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = escapeScopePart.Replace(p)
	}
	return strings.Join(escaped, "/")
}

var escapeScopePart = strings.NewReplacer("%", "%25", "/", "%2F")

// NewOwner draws an Owner from crypto/rand.
func NewOwner() Owner {
	var o Owner
	rand.Read(o[:]) // never fails: crypto/rand ends the program first
	return o
}

// Digest returns the key's digest.
func (k Key) Digest() Digest {
	var buf [256]byte
	sum := sha256.Sum256(appendParts(buf[:0], k.Scope, k.ID))
	return Digest(sum[:16])
}

// Child derives the key ID for a downstream call: SHA-256 over the length-prefixed scope, ID and name, its first 32
// hex digits. The same key and name give the same child on every attempt. The parent cannot be read from it, but
// anyone who knows the scope can find an ID that can be guessed, such as "order-17", by trying: it is no secret.
func (k Key) Child(name string) string {
	var buf [256]byte
	sum := sha256.Sum256(appendParts(buf[:0], k.Scope, k.ID, name))
	return hex.EncodeToString(sum[:16])
}

// Validate returns an error that wraps ErrInvalidKey if the ID is empty, or if the scope or the ID is too long.
func (k Key) Validate() error {
	switch {
	case k.ID == "":
		return fmt.Errorf("%w: the ID is empty", ErrInvalidKey)
	case len(k.ID) > MaxKeyBytes:
		return fmt.Errorf("%w: the ID has %d bytes, the limit is %d", ErrInvalidKey, len(k.ID), MaxKeyBytes)
	case len(k.Scope) > MaxKeyBytes:
		return fmt.Errorf("%w: the scope has %d bytes, the limit is %d", ErrInvalidKey, len(k.Scope), MaxKeyBytes)
	}
	return nil
}

// String returns the key's digest in hex, so that a key can be named in logs without being shown.
func (k Key) String() string { return k.Digest().String() }

// GoString hides the key from %#v too.
func (k Key) GoString() string { return "retrysafe.Key(" + k.String() + ")" }

// LogValue hides the key from log/slog.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText hides the key from encoding/json, also where it is part of a Lease or a Record, and so from slog's JSON.
// The key cannot be read back from it: a program that must keep a key saves its two fields.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// String returns the digest as 32 lower-case hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads what Digest.String printed.
func ParseDigest(s string) (Digest, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(Digest{}) {
		return Digest{}, errors.New("retrysafe: a key's digest is 32 hex digits")
	}
	return Digest(b), nil
}

// String returns the owner as 32 lower-case hex digits.
func (o Owner) String() string { return hex.EncodeToString(o[:]) }

// appendParts appends each part behind its length, so that no two lists of parts give the same bytes.
func appendParts(b []byte, parts ...string) []byte {
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}
