package otelsafe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/observe/otelsafe"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Everything that there is to see of a guard and its store, through the program's own providers.
func Example() {
	store := memstore.New(memstore.Options{})

	guard, stop, err := otelsafe.NewGuard(store, retrysafe.Options{}, otelsafe.Options{})
	if err != nil {
		log.Fatal(err)
	}
	out, err := guard.Do(context.Background(), retrysafe.Request{Key: retrysafe.Key{ID: "order-1"}}, answer)
	fmt.Println(string(out.Result.Body), err)
	fmt.Println(guard.Shutdown(context.Background()), stop())
	// Output:
	// paid <nil>
	// <nil> <nil>
}

// What crosses services: the client, an outbox and its relay, a consumer.
func Example_acrossServices() {
	seen, err := otelsafe.NewClientObserver(otelsafe.Options{})
	if err != nil {
		log.Fatal(err)
	}
	transport := httpclient.NewTransport(httpclient.Options{Options: client.Options{Observer: seen}})

	box, err := outbox.New(nil, outbox.SQLite, outbox.Options{}) // a *sql.DB, in a program
	if err != nil {
		log.Fatal(err)
	}
	stop, err := otelsafe.WatchOutbox(box, otelsafe.WatchOptions{Name: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	relays, err := otelsafe.NewOutboxObserver(otelsafe.OutboxOptions{
		Name:      "shop",
		TopicFunc: func(topic string) string { return topic },
	})
	if err != nil {
		log.Fatal(err)
	}
	relay := outbox.NewRelay(box, nil, outbox.RelayOptions{Observer: relays})

	queue, err := otelsafe.NewQueueObserver(otelsafe.Options{})
	if err != nil {
		log.Fatal(err)
	}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	consumer := queuesafe.New(guard, "billing", queuesafe.Options{Observer: queue})
	fmt.Println(transport != nil, relay != nil, consumer != nil)
	fmt.Println(stop())
	// Output:
	// true true true
	// <nil>
}
