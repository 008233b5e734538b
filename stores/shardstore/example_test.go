package shardstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
)

// Each key is kept by one of the shards. Stores of this program's own memory stand for those of servers.
func Example() {
	store, err := shardstore.New([]shardstore.Shard{
		{Name: "a", Store: memstore.New(memstore.Options{})},
		{Name: "b", Store: memstore.New(memstore.Options{})},
	}, shardstore.Options{})
	if err != nil {
		panic(err)
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	for range 2 {
		paid, err := retrysafe.Do(context.Background(), guard, retrysafe.Request{Key: retrysafe.Key{ID: "order-1"}},
			func(context.Context, *retrysafe.Attempt) (string, error) {
				fmt.Println("charging")
				return "paid", nil
			})
		fmt.Println(paid, err)
	}
	// Output:
	// charging
	// paid <nil>
	// paid <nil>
}

// A key that was claimed before the move is still taken when the new store decides.
func ExampleMove() {
	from := []shardstore.Shard{{Name: "old", Store: memstore.New(memstore.Options{})}}
	to := []shardstore.Shard{{Name: "new", Store: memstore.New(memstore.Options{})}}
	claim := func(o shardstore.Options) {
		store, err := shardstore.New(from, o)
		if err != nil {
			panic(err)
		}
		c, err := store.Claim(context.Background(), retrysafe.ClaimParams{
			Key: retrysafe.Key{ID: "order-1"}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
		})
		fmt.Println(c.Verdict, err)
	}
	claim(shardstore.Options{})
	claim(shardstore.Options{Move: &shardstore.Move{To: to, Stage: shardstore.OldDecides}})
	claim(shardstore.Options{Move: &shardstore.Move{To: to, Stage: shardstore.NewDecides}})
	// Output:
	// acquired <nil>
	// in flight <nil>
	// in flight <nil>
}
