package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/watermillsafe"
)

// runWatermill consumes from Watermill's own broker, in memory. No other process can send to it, so runWatermill sends
// the orders itself, and returns when all of them are processed.
func runWatermill(ctx context.Context, t *till) error {
	// A message counts as published once it is acknowledged.
	channel := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router, err := newRouter(channel, channel, t)
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
	return errors.Join(router.Close(), <-ended, channel.Close())
}

// newRouter consumes the topic orders of any broker for which Watermill has a subscriber. A copy of each dead letter
// goes to the topic orders.dead.
func newRouter(from message.Subscriber, dead message.Publisher, t *till) (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	poison, err := middleware.PoisonQueueWithFilter(dead, "orders.dead", watermillsafe.IsDead)
	if err != nil {
		return nil, err
	}
	router.AddMiddleware(poison, watermillsafe.Middleware(t.consumer, watermillsafe.Options{}))
	router.AddConsumerHandler("till", "orders", from, func(m *message.Message) error {
		return t.charge(m.Context(), queuesafe.Message{Body: m.Payload})
	})
	return router, nil
}
