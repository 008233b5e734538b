package dynamostore

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
		Age:  func(t *testing.T, s retrysafe.Store, d time.Duration) { age(t, s.(*Store), d) },
		Reopen: func(t *testing.T, s retrysafe.Store) retrysafe.Store {
			return openOn(t, connect(shared.Get(t).URL()), s.(*Store).table)
		},
		TooLarge: MaxBytes + 1,
		Walks:    3,
	})
}
