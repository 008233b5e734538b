package store

import (
	"testing"

	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A machine that begins after its time is over measures something all the same. Seen to fail with the time looked at
// before the first pair: a panic, because there was nothing to order.
func TestMeasuringBeginsLate(t *testing.T) {
	l, err := measure(t.Context(), memstore.New(memstore.Options{}), 2, 0)
	if err != nil || l.Claim.N != 2 || l.Complete.N != 2 || l.Replay.N != 2 {
		t.Errorf("got %+v, %v; want two of each", l, err)
	}
}
