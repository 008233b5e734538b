// Package sqssafe consumes from Amazon SQS, handling each message at most once for its key, and sends the outbox's
// messages to SQS.
//
//	consumer := queuesafe.New(guard, "billing", queuesafe.Options{})
//	orders := sqssafe.NewConsumer(sqs.NewFromConfig(config), queueURL, consumer, charge, sqssafe.Options{
//		DeadLetters: deadURL,
//	})
//	err = orders.Run(ctx) // until ctx ends
//
// A received message is invisible to other consumers for Options.Visibility; while its handler runs, the Consumer
// extends that. It deletes the message only after its key has ended. A message to deliver again becomes visible after
// its delay. SQS never keeps a message invisible for more than 12 hours: keep the Guard's Policy.Timeout below that.
//
// In a FIFO queue the messages of a group are handled in order: a message that is to be delivered again blocks its
// group until then.
//
// Messages that are given up go to Options.DeadLetters. Without it they are left to the queue's redrive policy: each
// delivery has the same result, at the cost of one read, until SQS has counted maxReceiveCount deliveries. SQS also
// counts deliveries that found the key in flight: set maxReceiveCount to 1000, its maximum.
//
// A message's ID is SQS's MessageId, which is the same on every delivery. A producer that sends a message again gets
// another ID, unless the queue is FIFO and it does so within five minutes: let it send the attribute Idempotency-Key,
// as the outbox does, or use queuesafe.KeyByField.
//
// The package is tested against fauxqs, a server that implements SQS's protocol, with visibility, groups and redrive
// policies.
//
// design.md in the folder of this package says why it is built so and what its files are.
package sqssafe
