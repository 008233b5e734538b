package sqlitestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// A charge that is made once, although it is asked for twice.
func Example() {
	dir, err := os.MkdirTemp("", "retrysafe")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlitestore.Open(filepath.Join(dir, "retrysafe.db"), sqlitestore.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	guard := retrysafe.New(store, retrysafe.Options{})
	defer guard.Shutdown(context.Background())

	request := retrysafe.Request{Key: retrysafe.Key{Scope: "tenant-17", ID: "order-42"}}
	for range 2 {
		receipt, err := retrysafe.Do(context.Background(), guard, request,
			func(context.Context, *retrysafe.Attempt) (string, error) {
				fmt.Println("charging")
				return "receipt 1", nil
			})
		fmt.Println(receipt, err)
	}
	// Output:
	// charging
	// receipt 1 <nil>
	// receipt 1 <nil>
}
