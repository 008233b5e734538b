package main

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/queuesafe/natssafe"
)

// runNATS consumes the subject orders.new of the JetStream stream orders. A copy of each dead letter goes to the
// subject orders.dead. It creates the stream.
func runNATS(ctx context.Context, url string, t *till) error {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "orders", Subjects: []string{"orders.>"}})
	if err != nil {
		return err
	}
	config := natssafe.ConsumerConfig("till")
	config.FilterSubject = "orders.new"
	pull, err := stream.CreateOrUpdateConsumer(ctx, config)
	if err != nil {
		return err
	}
	orders, err := natssafe.NewConsumer(js, pull, t.consumer, t.charge, natssafe.Options{DeadLetters: "orders.dead"})
	if err != nil {
		return err
	}
	return orders.Run(ctx)
}
