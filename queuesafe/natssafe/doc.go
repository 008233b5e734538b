// Package natssafe consumes from NATS JetStream, each message at most once for its key, and sends the outbox's messages to
// it.
//
//	consumer, err := queuesafe.New(guard, "billing", queuesafe.Options{})
//	…
//	pull, err := stream.CreateOrUpdateConsumer(ctx, natssafe.ConsumerConfig("billing"))
//	…
//	orders, err := natssafe.NewConsumer(js, pull, consumer, charge, natssafe.Options{DeadLetters: "dead.orders"})
//	…
//	err = orders.Run(ctx) // until ctx ends
//
// What a [Consumer] tells JetStream:
//
//	Ack     a double acknowledgement: it waits until the server has noted it
//	Later   a negative one with the delay; the server counts the deliveries
//	Dead    a copy goes to the subject of the dead letters, then the message is terminated with the reason
//	        while the handler runs, every third of AckWait: in progress
//
// The connection is the caller's; nats.go makes it again when it is lost.
//
// # Design
//
//   - Messages are pulled, not sent ahead. A message that waits in the process uses up its AckWait, so only as many are
//     requested as handlers are free.
package natssafe
