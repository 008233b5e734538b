package otelsafe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/observe/otelsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Everything that there is to see of a guard and its store, through the program's own providers.
func Example() {
	store := memstore.New(memstore.Options{})

	observer, err := otelsafe.New(otelsafe.Options{})
	if err != nil {
		log.Fatal(err)
	}
	measured, err := otelsafe.Instrument(store, otelsafe.Options{})
	if err != nil {
		log.Fatal(err)
	}
	stop, err := otelsafe.WatchStore(store, otelsafe.WatchOptions{})
	if err != nil {
		log.Fatal(err)
	}
	guard := retrysafe.New(measured, retrysafe.Options{Observer: observer})

	out, err := guard.Do(context.Background(), retrysafe.Request{Key: retrysafe.Key{ID: "order-1"}}, answer)
	fmt.Println(string(out.Result.Body), err)
	fmt.Println(guard.Shutdown(context.Background()), stop())
	// Output:
	// paid <nil>
	// <nil> <nil>
}
