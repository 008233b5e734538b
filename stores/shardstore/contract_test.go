package shardstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// memories returns shards a, b, … that share a clock, which passed moves.
func memories(n int, passed *atomic.Int64) []shardstore.Shard {
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) + time.Duration(passed.Load()) }
	shards := make([]shardstore.Shard, n)
	for i := range shards {
		shards[i] = shardstore.Shard{
			Name: string(rune('a' + i)), Store: memstore.New(memstore.Options{Clock: clock}),
		}
	}
	return shards
}

func open(t *testing.T, shards []shardstore.Shard, o shardstore.Options) *shardstore.Store {
	t.Helper()
	s, err := shardstore.New(shards, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runContract runs the suite with stores over n new memstores.
func runContract(t *testing.T, n int, copies bool, open func(t *testing.T, shards []shardstore.Shard) retrysafe.Store) {
	passed := new(atomic.Int64)
	storetest.Run(t, storetest.Harness{
		Open:   func(t *testing.T) retrysafe.Store { return open(t, memories(n, passed)) },
		Age:    func(_ *testing.T, _ retrysafe.Store, d time.Duration) { passed.Add(int64(d)) },
		Copies: copies,
	})
}

// Seen to fail with the limit of List taken out, with pages that end between records of one FirstFence, and with
// Sweep of the first shard alone.
func TestContract(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " shards"), func(t *testing.T) {
			runContract(t, n, false, func(t *testing.T, shards []shardstore.Shard) retrysafe.Store {
				return open(t, shards, shardstore.Options{})
			})
		})
	}
}

// A store of one shard, and both stores of a move, go on serving what they have accepted when they are full.
func TestFullStoresServeWhatTheyHaveAccepted(t *testing.T) {
	full := func() []shardstore.Shard {
		shards := make([]shardstore.Shard, 2)
		for i := range shards {
			shards[i] = shardstore.Shard{Name: fmt.Sprint(i), Store: memstore.New(memstore.Options{MaxKeys: 5})}
		}
		return shards
	}
	storetest.RunFull(t, storetest.Harness{Open: func(t *testing.T) retrysafe.Store {
		return open(t, full()[:1], shardstore.Options{})
	}}, nil)
	for _, stage := range stages() {
		t.Run(stage.String(), func(t *testing.T) {
			storetest.RunFull(t, storetest.Harness{Open: func(t *testing.T) retrysafe.Store {
				shards := full()
				return open(t, shards[:1], shardstore.Options{Move: &shardstore.Move{To: shards[1:], Stage: stage}})
			}}, nil)
		})
	}
}

func stages() []shardstore.Stage {
	return []shardstore.Stage{shardstore.OldDecides, shardstore.NewDecides}
}

// A move from one store to another is a Store at each of its stages, with all that stores can do.
func TestContractOfMoves(t *testing.T) {
	for _, stage := range stages() {
		t.Run(stage.String(), func(t *testing.T) {
			runContract(t, 2, true, func(t *testing.T, shards []shardstore.Shard) retrysafe.Store {
				return open(t, shards[:1], shardstore.Options{Move: &shardstore.Move{To: shards[1:], Stage: stage}})
			})
		})
	}
}

// growing is a Store to which a shard is added. It hides Stats and Sweep, which count the keys that move twice.
type growing struct {
	retrysafe.Store
	retrysafe.Watcher
}

// Adding a shard is a move of some of the keys.
func TestContractOfGrowing(t *testing.T) {
	for _, stage := range stages() {
		t.Run(stage.String(), func(t *testing.T) {
			runContract(t, 3, true, func(t *testing.T, shards []shardstore.Shard) retrysafe.Store {
				s := open(t, shards[:2], shardstore.Options{Move: &shardstore.Move{To: shards, Stage: stage}})
				return growing{s, s}
			})
		})
	}
}
