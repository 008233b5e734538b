// Package watermillsafe makes the handlers of a Watermill router run at most once for each message's key.
//
//	consumer := queuesafe.New(guard, "billing", queuesafe.Options{})
//	poison, err := middleware.PoisonQueueWithFilter(publisher, "orders.dead", watermillsafe.IsDead)
//	…
//	router.AddMiddleware(poison, watermillsafe.Middleware(consumer, watermillsafe.Options{}))
//	router.AddConsumerHandler("billing", "orders", subscriber, charge)
//
// The middleware uses Watermill's own means to settle a message:
//
//	ack     it returns nil, and the router acknowledges
//	later   it waits for the delay and returns an error; the router sends a Nack, and the subscriber redelivers the message
//	dead    it returns an error for which IsDead is true; Watermill's poison middleware, which wraps this one, publishes the
//	        message to the dead letters, and the router acknowledges
//
// Without a poison middleware there is no difference between the last two: a message that has failed for good is
// delivered again and again, at the cost of one read each time.
//
// A message's key is its metadata Idempotency-Key, or else its UUID, which the producer has chosen. Use the message's
// context inside a handler: it is that of the attempt, which a store's InTx and child keys need.
//
// Handlers that return messages to publish need Options.Publisher: the router would publish them after the key has
// ended, and a crash in between would lose them, because the redelivery is a duplicate. For the same reason InTx is
// refused in them. An outbox saves messages in the transaction of the business write.
//
// All of the package is in middleware.go.
//
// design.md in the folder of this package says why it is built so.
package watermillsafe
