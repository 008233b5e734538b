package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// A process that starts does not wait for a store's server forever.
//
// Seen to fail with "2 * time.Minute" as startPatience.
func TestOpenPatientlyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Parse("postgres://u@127.0.0.1:1/db")
		clitest.Must(t, err)
		began, pauses := time.Now(), 0
		_, _, err = r.OpenPatiently(t.Context(), func(err error, _ time.Duration, giveUp time.Time) {
			pauses++
			if !IsUnreachable(err) || !giveUp.Equal(began.Add(time.Minute)) {
				t.Errorf("told of %v, and to give up at %v", err, giveUp)
			}
		})
		if took := time.Since(began); !IsUnreachable(err) || pauses < 12 || took < 50*time.Second || took > time.Minute {
			t.Errorf("%v after %d pauses in %v, want that no server listens after a minute", err, pauses, took)
		}
	})
}
