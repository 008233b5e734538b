package pgstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// A charge that is made once, although it is asked for twice, by any of many processes.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(ctx, pool, pgstore.MigrateOptions{}); err != nil {
		panic(err)
	}
	store, err := pgstore.New(ctx, pool, pgstore.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
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
