// Package sqssafe consumes from Amazon SQS, each message at most once for its key, and sends the outbox's messages to it.
//
//	consumer, err := queuesafe.New(guard, "billing", queuesafe.Options{})
//	…
//	orders := sqssafe.NewConsumer(sqs.NewFromConfig(config), queueURL, consumer, charge, sqssafe.Options{
//		DeadLetters: deadURL,
//	})
//	err = orders.Run(ctx) // until ctx ends
//
// A message that was received is invisible to others for Options.Visibility, and while its handler runs that is made longer again and
// again. It is deleted after its key has ended, and not before. One that is to come again becomes visible after its delay.
// SQS never keeps a message invisible for more than 12 hours: keep Policy.Timeout of the guard below that.
//
// In a FIFO queue the messages of one group are handled in order: one that is to come again holds its group up until then.
//
// Messages that are given up go to Options.DeadLetters. Without it they are left to the queue's redrive policy: each delivery ends the
// same, at the cost of one read, until SQS has counted as many as the policy says. SQS counts all deliveries, also those that
// found the key in flight: let maxReceiveCount be well above queuesafe.Options.MaxDeliveries.
//
// A message's ID is SQS's MessageId: the same on every delivery. A producer that sends a message again gets another one, unless the
// queue is FIFO and it does so within five minutes: let it send the attribute Idempotency-Key, as the outbox does, or name a field.
//
// It is tested against fauxqs, a server that speaks SQS's protocol, with visibility, groups and redrive policies.
//
// # Design
//
//   - A message is received only when a handler is free, so that no visibility timeout runs out while a message waits
//     in the process. The exception are messages of one FIFO group that were received together: they are given back
//     when half of their visibility timeout has passed.
package sqssafe
