// Package amqpsafe consumes from RabbitMQ, handling each message at most once for its key, and sends the outbox's
// messages to RabbitMQ.
//
//	consumer := queuesafe.New(guard, "billing", queuesafe.Options{})
//	orders := amqpsafe.NewConsumer(amqpsafe.URL("amqp://…"), "orders", consumer, charge, amqpsafe.Options{})
//	err = orders.Run(ctx) // until ctx ends
//
// A [Consumer] declares four kinds of queues, all of them quorum queues with durable messages:
//
//	orders              what is consumed from
//	orders.retry.5s …   messages to deliver again later, one queue for each delay
//	orders.dead         messages that were given up
//
// RabbitMQ has no delayed nack, and the expiration of a single message takes effect only at the head of a queue: a
// message that waits for a minute would delay all that wait for a second. Therefore each delay has a queue of its own.
// All its messages wait equally long (x-message-ttl), and RabbitMQ then dead-letters them back to the original queue,
// at least once (RabbitMQ 3.10 and later). The consumer publishes a copy with a confirmation before it acknowledges the
// original. A crash in between leaves two messages with the same key, never none. The header [DeliveriesHeader] of a
// copy counts the deliveries.
//
// A message returns to its queue at once only when the consumer stops or loses its connection. The consumer reconnects,
// and declares the queues again, until Run's context ends.
//
// design.md in the folder of this package says why it is built so and what its files are.
package amqpsafe
