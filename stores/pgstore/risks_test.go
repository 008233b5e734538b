package pgstore

import (
	"strings"
	"testing"
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
		risks, err := s.Risks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range risks {
			got = append(got, r.Setting)
			if !strings.HasSuffix(r.Loses, ".") || !strings.HasSuffix(r.Remedy, ".") {
				t.Errorf("%s: not in sentences", r)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: got %q, want %q", params, got, want)
		}
	}
}
