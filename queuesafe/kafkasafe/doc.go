// Package kafkasafe consumes from Kafka, handling each message at most once for its key, and sends the outbox's
// messages to Kafka.
//
//	consumer := queuesafe.New(guard, "billing", queuesafe.Options{})
//	brokers := []kgo.Opt{kgo.SeedBrokers("broker:9092")}
//	orders := kafkasafe.NewConsumer(brokers, "billing", []string{"orders"}, consumer, charge, kafkasafe.Options{})
//	err = orders.Run(ctx) // until ctx ends
//
// Kafka has no acknowledgement for a single message: a group commits, for each partition, the offset below which
// everything is done. A [Consumer] handles many messages of a partition at once, keeps those with the same record key
// in order, and commits only up to the first message whose key has not ended:
//
//	offset     40   41   42   43   44   45
//	           ack  dead wait ack  runs ack     commits 42, since 42 has not ended
//
// A message to handle again later waits inside the consumer while others are handled. Only the commit and the messages
// with the same record key wait for it. A partition that is Options.Window messages ahead of its commit is paused until
// the gap is closed.
//
// When a partition moves to another member of the group, the consumer starts no more of its messages, waits up to
// Options.Drain for the running handlers, and commits what has ended. When a partition is lost because the group has
// removed this member, nothing is committed, and the group's generation makes the brokers refuse late commits. A
// message that is then delivered twice has the same key both times: the second delivery costs one read.
//
// Without a header or a field that names the operation, a message's key is its topic, partition and offset. It
// recognises a redelivery, but not a copy that a producer has sent again, which has another offset. A topic that is
// deleted and created again counts its offsets from 0: change queuesafe.Options.Version then.
//
// The package is tested against kfake, the test broker of franz-go, which has real groups, rebalances and faults.
//
// design.md in the folder of this package says why it is built so and what its files are.
package kafkasafe
