package retrysafe_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
)

// Seen to fail with Comparable taken out of Matches, and with only the digests compared.
func TestFingerprintMatches(t *testing.T) {
	for _, c := range []struct {
		a, b                retrysafe.Fingerprint
		comparable, matches bool
	}{
		{"raw1:abc", "raw1:abc", true, true},
		{"raw1:abc", "raw1:abd", true, false},
		{"raw1:abc", "raw1:ab", true, false},
		{"raw1:abc", "raw1:ABC", true, false},
		{"raw1:abc", "raw2:abd", false, true},
		{"raw1:abc", "raw1.k:abc", false, true},
		{"raw1.k:abc", "raw1.l:abd", false, true},
		{"raw1.k:abc", "raw1.k:abd", true, false},
		{"", "raw1:abc", false, true},
		{"", "", false, true},
		{"abc", "abc", true, true},
		{"abc", "abd", false, true},
	} {
		for _, pair := range [][2]retrysafe.Fingerprint{{c.a, c.b}, {c.b, c.a}} {
			if got := pair[0].Comparable(pair[1]); got != c.comparable {
				t.Errorf("%q.Comparable(%q) = %v", pair[0], pair[1], got)
			}
			if got := pair[0].Matches(pair[1]); got != c.matches {
				t.Errorf("%q.Matches(%q) = %v", pair[0], pair[1], got)
			}
		}
	}
}
