// Package watermillsafe makes the handlers of a Watermill router run at most once for each message's key.
//
//	consumer, err := queuesafe.New(guard, "billing", queuesafe.Options{})
//	…
//	poison, err := middleware.PoisonQueueWithFilter(publisher, "orders.dead", watermillsafe.IsDead)
//	…
//	router.AddMiddleware(poison, watermillsafe.Middleware(consumer, watermillsafe.Options{}))
//	router.AddConsumerHandler("billing", "orders", subscriber, charge)
//
// What becomes of a message is said in Watermill's own way:
//
//	ack     the middleware returns nil: the router acknowledges
//	later   it waits for the delay and returns an error: the router sends a Nack, and the subscriber delivers again
//	dead    it returns an error that IsDead: Watermill's poison middleware, around this one, publishes the message and acknowledges
//
// Without a poison middleware the last two are the same, and a message that has failed for good comes again and again, at the cost
// of one read each time.
//
// A message's key is its metadata Idempotency-Key, or else its UUID, which the producer has chosen. Use the message's context
// inside of a handler: it is that of the attempt, so that a store's InTx and child keys work.
//
// Handlers that return messages for the router to publish need Options.Publisher: the router would publish after the key has ended, and
// a crash in between would lose them for good, since the redelivery is a duplicate. An outbox saves them with the business write.
//
// # Design
//
//   - Errors say what becomes of a message, so that Watermill's own poison middleware sends the dead letters.
package watermillsafe
