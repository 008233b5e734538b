package memstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// aged is a Store whose clock a test moves.
type aged struct {
	*memstore.Store
	passed *atomic.Int64
}

func TestContract(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(*testing.T) retrysafe.Store {
			start, passed := time.Now(), new(atomic.Int64)
			clock := func() time.Duration { return time.Since(start) + time.Duration(passed.Load()) }
			return aged{memstore.New(memstore.Options{Clock: clock}), passed}
		},
		Age: func(_ *testing.T, s retrysafe.Store, d time.Duration) { s.(aged).passed.Add(int64(d)) },
	})
}
