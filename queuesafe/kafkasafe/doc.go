// Package kafkasafe consumes from Kafka, each message at most once for its key, and sends the outbox's messages to it.
//
//	consumer, err := queuesafe.New(guard, "billing", queuesafe.Options{})
//	…
//	brokers := []kgo.Opt{kgo.SeedBrokers("broker:9092")}
//	orders := kafkasafe.NewConsumer(brokers, "billing", []string{"orders"}, consumer, charge, kafkasafe.Options{})
//	err = orders.Run(ctx) // until ctx ends
//
// Kafka acknowledges no single message: a group commits, for each partition, the offset below which everything is done. A
// [Consumer] works on many messages of a partition at once, keeps those with one record key in order, and commits only up to
// the first message whose key has not ended:
//
//	offset     40   41   42   43   44   45
//	           ack  dead wait ack  runs ack     commits 42, since 42 has not ended
//
// Messages that are to come again wait inside of the consumer, in their place, while others go on; they hold up the messages with
// their record key and the commit, nothing else. A partition that is Options.Window ahead of its commit is paused until the
// gap is closed.
//
// When a partition goes to another member of the group, nothing more of it begins, what runs has Options.Drain to end, and
// what has ended is committed. When it is lost, since this member was taken for dead, nothing is committed, and the group's
// generation keeps late commits out. Whatever then is delivered twice has one key: the second delivery costs one read.
//
// Without a header or a field that names the operation, a message's key is its topic, partition and offset. That tells a redelivery,
// but not a copy that a producer has sent again, which has another offset; and a topic that is deleted and made anew counts
// its offsets from 0 again: give queuesafe.Options another Version then.
//
// It is tested against kfake, the broker that comes with franz-go and has real groups, rebalances and faults.
//
// # Design
//
//   - A message that is tried again keeps its place. A retry topic would break the order of a record key, and a commit
//     past the gap would lose the message with the process. So it waits in memory, and its record key with it, until
//     the window is full. Deliveries are those to one member; attempts are counted by the store.
//   - This package marks records, and franz-go commits what is marked under the group's generation. Partitions change
//     only between polls, and polls never wait for handlers, so a rebalance waits for Drain at most.
package kafkasafe
