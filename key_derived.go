package retrysafe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

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
// The window in which equal requests are one is Retention.Key, which the store counts from the end of the first.
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
