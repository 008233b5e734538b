// Command outbox is a shop that tells a warehouse of every order. The order, the message about it, and the answer to the client are
// committed together; a relay sends the message as a signed webhook, again and again until the warehouse has it; and the warehouse
// packs one parcel for it, however often it comes. Here it hangs up on the first one, after it has packed.
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

// run serves until it fails; the example nethttp shows an orderly end.
func run() (err error) {
	secrets, err := webhook.ParseSecrets(webhook.NewSecret()) // both sides know it; keep yours where secrets are kept
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

	shop, err := openShop("shop.db", hooks.URL+"/hooks", secrets, outbox.RelayOptions{Observer: outbox.ObserverFunc(logEvent)})
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
