// Package queuesafe makes message consumers safe against redelivery. Every broker delivers a message again after a
// crash, a lost acknowledgement or a rebalance, and delivers a copy if a producer has sent it twice. A [Consumer] runs
// the handler at most once for each key, and returns what to do with the message: acknowledge it, leave it for later,
// or give it up.
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	consumer := queuesafe.New(guard, "billing", queuesafe.Options{})
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
// [Options.Key] says where a message has its key, and the Guard's Policy.OnAbandoned says what becomes of a message
// whose handler was interrupted: RerunTx if all its effects are in one transaction with the key. Choose both. New
// panics if the name is empty or the options are not valid. docs/queues.md has the table of what happens to a message
// in each situation.
//
// design.md in the folder of this package says why it is built so and what its files are.
package queuesafe
