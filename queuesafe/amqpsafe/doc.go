// Package amqpsafe consumes from RabbitMQ, each message at most once for its key, and sends the outbox's messages to it.
//
//	consumer, err := queuesafe.New(guard, "billing", queuesafe.Options{})
//	…
//	orders := amqpsafe.NewConsumer(amqpsafe.URL("amqp://…"), "orders", consumer, charge, amqpsafe.Options{})
//	err = orders.Run(ctx) // until ctx ends
//
// A [Consumer] declares four kinds of queues, all of them quorum queues with durable messages:
//
//	orders              what is consumed from
//	orders.retry.5s …   messages that come again later, one queue for each delay
//	orders.dead         messages that were given up
//
// RabbitMQ has no delayed nack. A message's own expiration would not do: messages expire only at the head of a queue, so that one
// which waits for a minute would hold up all that wait for a second. Therefore each delay has a queue, whose messages all wait
// the same time (x-message-ttl) and are then dead-lettered back to where they came from, at least once (RabbitMQ 3.10 and later). A
// message gets there as a copy that is published with a confirmation before the original is acknowledged. So a crash between the
// two makes two of one message, which have one key, and never none. The copies carry how often the message was delivered,
// in the header [DeliveriesHeader].
//
// A message is left alone, to be delivered again at once, only when the consumer stops or loses its connection. Connections are made
// again, and queues declared again, until Run's context ends.
//
// # Design
//
//   - A queue for each delay, copies with confirmations, and no recovery by the client library: messages that were not
//     acknowledged on a lost connection belong to another consumer, so a session ends with its connection, while its
//     handlers finish.
package amqpsafe
