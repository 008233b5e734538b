package pgstore

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// The shared server has fsync and full_page_writes off. The tests of failovers in package integration have standbys.
// Seen to fail with each of the conditions in Risks turned around.
func TestRisks(t *testing.T) {
	t.Parallel()
	url := shared.Get(t).Database(t)
	for params, want := range map[string]string{
		"":                          "fsync = off, full_page_writes = off",
		"&synchronous_commit=off":   "fsync = off, full_page_writes = off, synchronous_commit = off",
		"&synchronous_commit=local": "fsync = off, full_page_writes = off",
	} {
		s := openAt(t, url+params, Options{})
		if got := strings.Join(testkit.Settings(t, s), ", "); got != want {
			t.Errorf("%q: got %q, want %q", params, got, want)
		}
	}
}
