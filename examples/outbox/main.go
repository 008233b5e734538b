// Command outbox is a shop that notifies a warehouse of every order. The order, its message and the answer to the
// client are committed together. A relay sends the message as a signed webhook until the warehouse has accepted it,
// and the warehouse packs one parcel for it. Here the warehouse closes the connection of the first webhook after it
// has packed the parcel, without an answer.
//
//	go run ./examples/outbox
//	curl -i 127.0.0.1:8080/orders -H 'Authorization: Bearer alice' -H 'Idempotency-Key: "order-17"' -d '{"book":"Emma"}'
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/retrysafe/retrysafe/examples/internal/faults"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/outbox/webhook"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run serves until it fails; the example nethttp shows a clean shutdown.
func run() (err error) {
	// both sides know it; load yours from where you keep secrets
	secrets, err := webhook.ParseSecrets(webhook.NewSecret())
	if err != nil {
		return err
	}
	warehouse, err := openWarehouse("warehouse.db", secrets)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, warehouse.close()) }()
	hooks := httptest.NewServer(faults.HangUpOnce(warehouse.handler()))
	defer hooks.Close()

	shop, err := openShop("shop.db", hooks.URL+"/hooks", secrets,
		outbox.RelayOptions{Observer: outbox.ObserverFunc(logEvent)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.close()) }()
	ctx, stop := context.WithCancel(context.Background())
	relayed := make(chan error)
	go func() { relayed <- shop.relay.Run(ctx) }()
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: shop.handler(), ReadHeaderTimeout: 10 * time.Second}
	err = server.ListenAndServe()
	stop()
	return errors.Join(err, <-relayed)
}

func logEvent(_ context.Context, e outbox.Event) {
	switch e.Kind {
	case outbox.MessageSent, outbox.MessageFailed, outbox.MessageDead, outbox.DatabaseFailed:
		log.Printf("%s: %s, try %d: %v", e.Kind, e.Topic, e.Try, e.Err)
	}
}
