package caller_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/caller"
)

// The value must never change, or callers lose their records.
func TestDigest(t *testing.T) {
	const want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := caller.Digest("abc"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
