package sqlitestore

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store { return openTest(t) },
		Age:  func(_ *testing.T, s retrysafe.Store, d time.Duration) { age(s.(*Store), d) },
		Reopen: func(t *testing.T, s retrysafe.Store) retrysafe.Store {
			old := s.(*Store)
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			return openAt(t, old.path, old.clock.aged)
		},
		Walks: 4, // with -race this driver is slow
	})
}
