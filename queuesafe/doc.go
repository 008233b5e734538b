// Package queuesafe makes message consumers safe against redelivery. Every broker delivers a message again after a
// crash, a lost acknowledgement or a rebalance, and delivers a copy if a producer has sent it twice. A [Consumer] runs
// the handler at most once for each key, and returns what to do with the message: acknowledge it, leave it for later,
// or give it up.
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	consumer, err := queuesafe.New(guard, "billing", queuesafe.Options{})
//	…
//	switch d := consumer.Handle(ctx, message, charge); d.Action {
//	case queuesafe.Ack:   // the key has ended: remove the message
//	case queuesafe.Later: // deliver it again after d.Delay
//	case queuesafe.Dead:  // it will never succeed: send it to the dead letters, with d.Situation as the reason
//	}
//
// The packages below this one do that for a broker: amqpsafe for RabbitMQ, natssafe for NATS JetStream, kafkasafe,
// sqssafe and watermillsafe. This package knows no broker and needs only the standard library: use it to write a
// consumer for another one.
//
// A message is acknowledged only after its key has ended. After a crash in between, the message is delivered again, and
// that delivery costs one read.
//
// # Files
//
//   - consumer.go: Consumer, its Options, Handle
//   - message.go, key.go, fingerprint.go: messages, how their key is found, which messages count as different
//   - work.go: the handler under the Guard, and what the Guard's answer means for the message
//   - disposition.go: the table of what happens to a message in each situation (docs/queues.md shows it)
//   - delay.go: when a message is delivered again, and how it is kept while it is handled
//   - observe.go: events
//
// # Design
//
//   - Consumer.Handle returns a Disposition, and an adapter carries it out. What becomes of a message is a table in
//     disposition.go, which a test compares with docs/queues.md.
//   - Ack means that the key has ended. If its end could not be saved yet, the message is not acknowledged: the next
//     delivery finds it, for one read.
//   - Deliveries are counted in two situations only. Brokers also count deliveries that failed for reasons outside of
//     the message, and a store that is down must not make dead letters.
//   - A poison message ends inside its claim. The attempt after the last allowed one completes the key as failed, under
//     its lease, without running the handler.
package queuesafe
