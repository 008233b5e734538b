package pgstore

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	runContract(t, shared.Get(t).Database(t), Options{})
}

// runContract runs the suite in one database, which is emptied for each rule.
func runContract(t *testing.T, url string, o Options) {
	t.Helper()
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store {
			s := openAt(t, url, o)
			empty(t, s)
			return s
		},
		Age: func(t *testing.T, s retrysafe.Store, d time.Duration) { age(t, s.(*Store), d) },
		Reopen: func(t *testing.T, s retrysafe.Store) retrysafe.Store {
			old := s.(*Store)
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			return openAt(t, old.pool.Config().ConnString(), o)
		},
		Walks: 6,
	})
}
