package redisstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

// A charge that is made once, although it is asked for twice, by any of many processes.
func Example() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}, DisableCache: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	store, err := redisstore.New(ctx, client, redisstore.Options{})
	if err != nil {
		panic(err)
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	defer guard.Shutdown(ctx)

	request := retrysafe.Request{Key: retrysafe.Key{Scope: "tenant-17", ID: "order-42"}}
	for range 2 {
		receipt, err := retrysafe.Do(ctx, guard, request,
			func(context.Context, *retrysafe.Attempt) (string, error) {
				fmt.Println("charging")
				return "receipt 1", nil
			})
		fmt.Println(receipt, err)
	}
	// It prints:
	// charging
	// receipt 1 <nil>
	// receipt 1 <nil>
}

// A program logs what the settings of the server may lose when it starts.
func ExampleStore_Risks() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}, DisableCache: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	store, err := redisstore.New(ctx, client, redisstore.Options{})
	if err != nil {
		panic(err)
	}
	risks, err := store.Risks(ctx)
	if err != nil {
		panic(err)
	}
	for _, r := range risks {
		log.Print("warning: ", r)
	}
	// It logs:
	// warning: appendfsync everysec: If the server's machine crashes, claims of the last second or two are lost. Set
	// appendfsync to always.
}

// Behind Sentinel, calls that wait for a replica lose less at a failover.
func ExampleNew_sentinel() {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
		Sentinel:     rueidis.SentinelOption{MasterSet: "mymaster", TopologyRefreshInterval: 5e9},
		DisableCache: true,
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	store, err := redisstore.New(context.Background(), client, redisstore.Options{WaitReplicas: 1})
	if err != nil {
		panic(err)
	}
	guard := retrysafe.New(store, retrysafe.Options{})
	defer guard.Shutdown(context.Background())
}
