package storekit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// call is an operation of one step.
type call struct{ Call }

func (*call) Begin()                {}
func (*call) Next() (more bool)     { return false }
func key(i int) retrysafe.Key       { return retrysafe.Key{ID: fmt.Sprint(i)} }
func newCall(k retrysafe.Key) *call { return &call{NewCall(k, 0)} }

// Many rows are locked. The calls for others have their answers after a few waits, and no more connections are used
// than the workers may have, once for batches and once for calls that run apart.
//
// Seen to fail with each call that runs apart on a connection of its own, at once (400 of them), and with a call that
// waits for its row until it has it (the others waited for three minutes).
func TestLockedRowsOccupyFewConnections(t *testing.T) {
	t.Parallel()
	const workers, limit, locked, others = 2, 10, 40, 400
	synctest.Test(t, func(t *testing.T) {
		refused, sending, most := errors.New("locked"), atomic.Int64{}, atomic.Int64{}
		rows, unlocked := map[retrysafe.Digest]bool{}, atomic.Bool{}
		for i := range locked {
			rows[key(i).Digest()] = true
		}
		b := NewBatcher(workers, limit, Server[*call]{
			Steps: Steps{Count: 1, Find: 1}, Timeout: time.Minute, ShortLockWaits: true,
			Send: func(_ context.Context, b *Batch[*call]) error {
				n := sending.Add(1)
				defer sending.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				for _, op := range b.Ops {
					if rows[op.Digest] && !unlocked.Load() {
						time.Sleep(Patience)
						return refused
					}
				}
				time.Sleep(time.Millisecond)
				return nil
			},
			Fault: func(error) Fault { return RowLocked }, Remedy: func(error) error { return nil },
			Explain: func(err error) error { return err },
		})
		waited, answered := make(chan error, locked), make(chan error, others)
		began := time.Now()
		for i := range locked {
			go func() { waited <- b.Do(t.Context(), newCall(key(i))) }()
		}
		for i := range others {
			go func() { answered <- b.Do(t.Context(), newCall(key(locked+i))) }()
		}
		for range others {
			if err := <-answered; err != nil {
				t.Errorf("another key: %v", err)
			}
		}
		if took := time.Since(began); took > 15*Patience || len(waited) > 0 {
			t.Errorf("the others waited for %v, and %d of the locked have an answer", took, len(waited))
		}
		if n := most.Load(); n > 2*limit {
			t.Errorf("%d connections at once", n)
		}
		unlocked.Store(true)
		for range locked {
			if err := <-waited; err != nil {
				t.Errorf("a key that was locked: %v", err)
			}
		}
		b.Workers.Close()
	})
}
