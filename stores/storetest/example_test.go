package storetest_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// agingStore is the store under test, and a way to let time pass in it. A store that keeps its records in a database
// needs no such type: its Age runs one UPDATE that moves every stored instant back by d.
type agingStore struct {
	*memstore.Store
	passed *atomic.Int64
}

func open(*testing.T) retrysafe.Store {
	start, passed := time.Now(), new(atomic.Int64)
	clock := func() time.Duration { return time.Since(start) + time.Duration(passed.Load()) }
	return agingStore{memstore.New(memstore.Options{Clock: clock}), passed}
}

func age(_ *testing.T, s retrysafe.Store, d time.Duration) { s.(agingStore).passed.Add(int64(d)) }

// In the tests of a store this would be func TestContract(t *testing.T).
func Example() {
	testContract := func(t *testing.T) {
		storetest.Run(t, storetest.Harness{Open: open, Age: age})
	}
	_ = testContract
}
