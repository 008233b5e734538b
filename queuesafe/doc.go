// Package queuesafe makes message consumers safe against redelivery. Every broker delivers at least once: after a crash, a
// lost acknowledgement, a rebalance, a producer that sent twice. A [Consumer] runs the handler at most once for each key,
// and says what to do with the message: acknowledge it, leave it for later, or give it up.
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	consumer, err := queuesafe.New(guard, "billing", queuesafe.Options{})
//	…
//	switch d := consumer.Handle(ctx, message, charge); d.Action {
//	case queuesafe.Ack:   // the key has ended: remove the message
//	case queuesafe.Later: // deliver it again after d.Delay
//	case queuesafe.Dead:  // it will never succeed: to the dead letters, with d.Situation as the reason
//	}
//
// The folders below have the consumers for brokers, which do that: amqpsafe for RabbitMQ, natssafe for NATS JetStream,
// kafkasafe, sqssafe, watermillsafe. This package imports the standard library only; with it one writes such a consumer for
// any other broker.
//
// A message is acknowledged only after its key has ended. So whatever crashes between the two, the message comes again, and
// the second delivery costs one read.
package queuesafe
