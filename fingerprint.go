package retrysafe

import (
	"crypto/subtle"
	"strings"
)

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
