// Package caller names callers by what they authenticate with, in one way for all adapters: a caller of two protocols is one caller.
package caller

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest returns "sha256:" and the hash of s in hex: the name of whoever shows the credential s.
func Digest(s string) string {
	const prefix = "sha256:"
	var in [256]byte
	sum := sha256.Sum256(append(in[:0], s...))
	var out [len(prefix) + 2*sha256.Size]byte
	copy(out[:], prefix)
	hex.Encode(out[len(prefix):], sum[:])
	return string(out[:])
}
