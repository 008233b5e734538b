package main

import (
	"context"

	"github.com/retrysafe/retrysafe/queuesafe/amqpsafe"
)

// runRabbitMQ consumes from the queue orders. Dead letters go to the queue orders.dead. It declares the queues.
func runRabbitMQ(ctx context.Context, url string, t *till) error {
	return amqpsafe.NewConsumer(amqpsafe.URL(url), "orders", t.consumer, t.charge, amqpsafe.Options{}).Run(ctx)
}
