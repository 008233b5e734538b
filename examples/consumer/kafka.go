package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/queuesafe/kafkasafe"
)

// runKafka consumes the topic orders. A copy of each dead letter goes to the topic orders.dead. Both topics must exist.
func runKafka(ctx context.Context, brokers []string, t *till) error {
	connect := []kgo.Opt{kgo.SeedBrokers(brokers...)}
	return kafkasafe.NewConsumer(connect, "till", []string{"orders"}, t.consumer, t.charge, kafkasafe.Options{}).Run(ctx)
}
