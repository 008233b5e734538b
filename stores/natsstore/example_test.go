package natsstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/natsstore"
)

// A charge that is made once, although it is asked for twice, by any of many processes.
func Example() {
	ctx := context.Background()
	conn, err := nats.Connect(os.Getenv("NATS_URL"), nats.MaxReconnects(-1))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		panic(err)
	}
	if err := natsstore.CreateBucket(ctx, js, natsstore.BucketOptions{Replicas: 3}); err != nil {
		panic(err)
	}
	store, err := natsstore.New(ctx, js, natsstore.Options{})
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

// A program reports what its servers' settings may lose when it starts.
func ExampleStore_Risks() {
	var store *natsstore.Store // from New
	report := func(ctx context.Context) error {
		risks, err := store.Risks(ctx)
		for _, r := range risks {
			fmt.Fprintln(os.Stderr, "warning:", r)
		}
		return err
	}
	_ = report
}

// A bucket that exists is left as it is, so that every process may call CreateBucket when it starts.
func ExampleCreateBucket() {
	create := func(ctx context.Context, js jetstream.JetStream) error {
		return natsstore.CreateBucket(ctx, js, natsstore.BucketOptions{
			Bucket: "payments", Replicas: 3, MaxBytes: 10 << 30,
		})
	}
	_ = create
}
