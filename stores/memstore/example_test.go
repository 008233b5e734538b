package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A store is used through a Guard; this is what the Guard does with it.
func Example() {
	ctx := context.Background()
	store := memstore.New(memstore.Options{})
	claim := func() retrysafe.Claim {
		c, err := store.Claim(ctx, retrysafe.ClaimParams{
			Key:   retrysafe.Key{Scope: "tenant-17", ID: "order-1"},
			Owner: retrysafe.NewOwner(),
			Lease: time.Minute,
		})
		if err != nil {
			panic(err)
		}
		return c
	}

	first := claim()
	fmt.Println(first.Verdict)
	fmt.Println(claim().Verdict)
	if err := store.Complete(ctx, first.Lease, retrysafe.Result{Body: []byte("paid")}, retrysafe.Retention{}); err != nil {
		panic(err)
	}
	retry := claim()
	fmt.Printf("%v: %s\n", retry.Verdict, retry.Record.Result.Body)
	// Output:
	// acquired
	// in flight
	// done: paid
}

// Tests set the clock, and let days pass at once.
func ExampleOptions() {
	var now time.Duration
	store := memstore.New(memstore.Options{Clock: func() time.Duration { return now }})
	claim := func() retrysafe.Verdict {
		c, err := store.Claim(context.Background(), retrysafe.ClaimParams{
			Key:   retrysafe.Key{ID: "order-1"},
			Owner: retrysafe.NewOwner(),
			Lease: time.Minute,
		})
		if err != nil {
			panic(err)
		}
		return c.Verdict
	}

	fmt.Println(claim())
	now = time.Hour
	fmt.Println(claim())
	now = 48 * time.Hour
	fmt.Println(claim())
	// Output:
	// acquired
	// abandoned
	// acquired
}
