// Package natssafe consumes from NATS JetStream, handling each message at most once for its key, and sends the outbox's
// messages to JetStream.
//
//	consumer, err := queuesafe.New(guard, "billing", queuesafe.Options{})
//	…
//	pull, err := stream.CreateOrUpdateConsumer(ctx, natssafe.ConsumerConfig("billing"))
//	…
//	orders, err := natssafe.NewConsumer(js, pull, consumer, charge, natssafe.Options{DeadLetters: "dead.orders"})
//	…
//	err = orders.Run(ctx) // until ctx ends
//
// What a [Consumer] sends to JetStream:
//
//	Ack     a double acknowledgement: it waits until the server has confirmed it
//	Later   a negative acknowledgement with the delay; the server counts the deliveries
//	Dead    a copy to the subject of the dead letters, then a termination with the reason
//
// While a handler runs, the Consumer sends "in progress" every third of AckWait. The caller owns the connection;
// nats.go reconnects after it was lost.
//
// # Files
//
//   - consumer.go: Consumer, its Options, Run, and how messages are settled
//   - message.go: messages and dead letters
//   - sink.go: the sink for the outbox
//
// # Design
//
//   - Messages are pulled, not sent ahead. A message that waits in the process uses up its AckWait, so only as many are
//     requested as handlers are free.
//   - A consumer that stops takes what the server has sent until it knows, and gives it back. A message that it dropped
//     would be delivered again only after AckWait. If the connection is lost, that cannot be avoided.
package natssafe
