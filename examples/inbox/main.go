// Command inbox receives the webhooks of a payment provider. An event is acknowledged as soon as it is on disk, and then
// delivered to the handler, which books the payment and completes the key of the event in one transaction. Here the
// handler fails at the first event, after it has booked: that is rolled back, and the event is delivered again.
//
//	go run ./examples/inbox
//	curl -i 127.0.0.1:8080/webhooks -d '{"id":"evt_1","amount":4200}'
//
// Send it as often as you like, and follow the address in Location.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/outbox"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run serves until it fails; the example nethttp shows a clean shutdown.
func run() (err error) {
	s, err := open("webhooks.db", inbox.Options{Observer: outbox.ObserverFunc(logEvent)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	ctx, stop := context.WithCancel(context.Background())
	delivered := make(chan error)
	go func() { delivered <- s.deliver(ctx) }()
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	err = server.ListenAndServe()
	stop()
	return errors.Join(err, <-delivered)
}

func logEvent(_ context.Context, e outbox.Event) {
	switch e.Kind {
	case outbox.MessageSent, outbox.MessageFailed, outbox.MessageDead, outbox.DatabaseFailed:
		log.Printf("%s: try %d: %v", e.Kind, e.Try, e.Err)
	}
}
