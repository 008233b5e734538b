package sqlitestore

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// openTest opens a store in a new file. Time passes in it by age, also after reopen.
func openTest(t testing.TB) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "store.db"), new(atomic.Int64))
}

func openAt(t testing.TB, path string, aged *atomic.Int64) *Store {
	t.Helper()
	s, err := Open(path, Options{aged: aged})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func age(s *Store, d time.Duration) { s.clock.aged.Add(d.Microseconds()) }

func params(id string) retrysafe.ClaimParams {
	return retrysafe.ClaimParams{
		Key: retrysafe.Key{Scope: "scope", ID: id}, Fingerprint: "raw1:same", Owner: retrysafe.NewOwner(),
		Lease: time.Minute, Keep: retrysafe.Retention{Replay: time.Hour},
	}
}
