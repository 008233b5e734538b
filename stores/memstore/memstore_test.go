package memstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Seen to fail with <= in Sweep.
func TestContract(t *testing.T) {
	start, passed := time.Now(), new(atomic.Int64)
	clock := func() time.Duration { return time.Since(start) + time.Duration(passed.Load()) }
	storetest.Run(t, storetest.Harness{
		Open: func(*testing.T) retrysafe.Store { return memstore.New(memstore.Options{Clock: clock}) },
		Age:  func(_ *testing.T, _ retrysafe.Store, d time.Duration) { passed.Add(int64(d)) },
	})
}
