// Command watermill charges for the orders in a Watermill router, once for each order, even if it is delivered or sent
// repeatedly.
//
//	go run ./examples/watermill
//
// The broker is Watermill's own, in memory: the program sends {"order":"o-1","cents":1700} twice and {"order":"o-2"}
// once, and prints how many charges there are. With another subscriber the rest stays as it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/retrysafe/retrysafe/examples/internal/till"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/watermillsafe"
)

func main() {
	t, err := till.Open("till.db")
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(run(context.Background(), t), t.Close(context.Background())); err != nil {
		log.Fatal(err)
	}
}

// run sends orders and returns when all of them are processed.
func run(ctx context.Context, t *till.Till) error {
	// A message counts as published once it is acknowledged.
	channel := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router, err := newRouter(channel, t)
	if err != nil {
		return err
	}
	dead, err := channel.Subscribe(ctx, "orders.dead")
	if err != nil {
		return err
	}
	go func() {
		for m := range dead {
			fmt.Printf("given up: %s: %s\n", m.Payload, m.Metadata.Get(middleware.ReasonForPoisonedKey))
			m.Ack()
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	<-router.Running()
	for _, order := range []string{`{"order":"o-1","cents":1700}`, `{"order":"o-1","cents":1700}`, `{"order":"o-2"}`} {
		if err := channel.Publish("orders", message.NewMessage(watermill.NewUUID(), []byte(order))); err != nil {
			return err
		}
	}
	err = errors.Join(router.Close(), <-ended, channel.Close())
	orders, charges, failed := t.Charges(ctx)
	fmt.Printf("%d charges for %d orders\n", charges, orders)
	return errors.Join(err, failed)
}

func newRouter(channel *gochannel.GoChannel, t *till.Till) (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	poison, err := middleware.PoisonQueueWithFilter(channel, "orders.dead", watermillsafe.IsDead)
	if err != nil {
		return nil, err
	}
	router.AddMiddleware(poison, watermillsafe.Middleware(t.Consumer, watermillsafe.Options{}))
	router.AddConsumerHandler("till", "orders", channel, func(m *message.Message) error {
		return t.Charge(m.Context(), queuesafe.Message{Body: m.Payload})
	})
	return router, nil
}
