package retrysafe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/retrysafe/retrysafe/internal/keytext"
)

// MaxKeyBytes is the longest [Key.Scope] and the longest [Key.ID] that a Guard accepts, each.
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
// hex digits. The same key and name give the same child on every attempt.
//
// A child does not hide its parent: a reader of the child who knows the scope can hash guesses of the ID and compare
// them, and so finds an ID such as "order-17". [Options.ChildSecret] prevents that: see [Guard.ChildKey].
func (k Key) Child(name string) string {
	var buf [256]byte
	sum := sha256.Sum256(appendParts(buf[:0], k.Scope, k.ID, name))
	return hex.EncodeToString(sum[:16])
}

// childWith returns the child under a secret. It is made of the text of the child, so that a program that gets child
// keys from SQL functions makes the same in one line.
func (k Key) childWith(secret []byte, name string) string {
	child := k.Child(name)
	if secret == nil {
		return child
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(child))
	return hex.EncodeToString(h.Sum(nil))[:len(child)]
}

// Validate returns an error that wraps [ErrInvalidKey] if the ID is empty, or if the scope or the ID is too long.
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

// ParseDigest reads what [Digest.String] printed.
func ParseDigest(s string) (Digest, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(Digest{}) {
		return Digest{}, errors.New("retrysafe: a key's digest is 32 hex digits")
	}
	return Digest(b), nil
}

// String returns the owner as 32 lower-case hex digits.
func (o Owner) String() string { return hex.EncodeToString(o[:]) }

// NaturalID makes a key ID out of what names an operation in the request itself: path values, chosen fields
// (JSONField), and beside them an idempotency reference, for when the same operation may legitimately come twice. It is
// SHA-256 over the length-prefixed parts in 64 hex digits: NaturalID("ab", "c") differs from NaturalID("a", "bc").
//
// Refuse a request that lacks one of the parts: an empty part is a value like any other, and all requests without a
// reference would share one key.
func NaturalID(parts ...string) string {
	var buf [256]byte
	sum := sha256.Sum256(appendParts(appendParts(buf[:0], "retrysafe natural key"), parts...))
	return hex.EncodeToString(sum[:])
}

// BodyHashID makes a key ID for clients that send no key, out of what they ask for: the canonical body or chosen fields
// of it (CanonicalJSON, Fields.Canonical), the operation, and an intent that distinguishes deliberate repeats ("" if
// there is none). Two requests with the same parts and intent are then one operation for as long as the key is taken.
// It is HMAC-SHA-256 over the length-prefixed intent and parts in 64 hex digits; without the secret a reader of an ID
// cannot guess a request that has few possible values. It must be the same in all processes and for as long as records
// are kept.
//
// The window in which equal requests are one is [Retention.Key], which the store counts from the end of the first.
// Put no time into the parts: of two requests on either side of a bucket's edge both would run.
//
// Refuse a request that lacks what must be in it: Fields finds nothing there, and all such requests would share one
// key.
func BodyHashID(secret []byte, intent string, parts ...string) string {
	var buf [256]byte
	h := hmac.New(sha256.New, secret)
	h.Write(appendParts(appendParts(buf[:0], "retrysafe body hash", intent), parts...))
	return hex.EncodeToString(h.Sum(nil))
}

// Intent names something that is to happen once: by the operation, and by the parameters that distinguish it from other
// intents, such as {"charge", {"order-17"}}. The same intent has the same key in every process and
// after every restart, whatever protocol carries it, so that a program that comes back to it asks again instead of
// doing it again.
//
// Use parameters that are unique for good and known before the first attempt: an order number that is committed, a
// month and a customer. A number that a rolled-back transaction gives back, or a digest of the request, is none: two
// operations would share a key, or one would have two.
type Intent struct {
	Operation string
	Params    []string
}

// Key returns the key of the intent: a UUID of version 8 (RFC 9562, section 5.8) made of [NaturalID].
//
// Everyone who knows the parameters can compute the key. Servers look keys up together with the caller's credential, so
// a key need not be secret; do not use it as one.
func (i Intent) Key() string {
	return keytext.UUIDOf(NaturalID(append([]string{"retrysafe intent", i.Operation}, i.Params...)...), '8')
}

// String returns the intent as "charge(order-17)".
func (i Intent) String() string { return i.Operation + "(" + strings.Join(i.Params, ", ") + ")" }

// Fingerprint is a digest of the request that first used a key, behind the name of the algorithm that made it:
// "raw1:" and 43 characters. Stores compare fingerprints byte for byte; a Guard compares them with Matches.
// An empty Fingerprint matches everything.
type Fingerprint string

// Matches reports whether both stand for the same request, as far as can be told: fingerprints made by different
// algorithms (the configuration or the secret has changed since) cannot be compared, and match. Their digests are
// compared in constant time.
func (f Fingerprint) Matches(other Fingerprint) bool {
	if !f.Comparable(other) {
		return true
	}
	return subtle.ConstantTimeCompare([]byte(f), []byte(other)) == 1
}

// Comparable reports whether both were made by the same algorithm.
func (f Fingerprint) Comparable(other Fingerprint) bool {
	return f != "" && other != "" && f.algorithm() == other.algorithm()
}

func (f Fingerprint) algorithm() string {
	alg, _, _ := strings.Cut(string(f), ":")
	return alg
}

// appendParts appends each part behind its length, so that no two lists of parts give the same bytes.
func appendParts(b []byte, parts ...string) []byte {
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}
