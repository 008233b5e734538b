// Package natssafe consumes from NATS JetStream, handling each message at most once for its key, and sends the outbox's
// messages to JetStream.
//
//	consumer := queuesafe.New(guard, "billing", queuesafe.Options{})
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
// design.md in the folder of this package says why it is built so and what its files are.
package natssafe
