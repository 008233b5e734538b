package kafkasafe_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// A member joins: the partition that it gets waits until what runs there has ended, and is committed. Seen to fail with
// drain taken out of revoked: the other member found the message in flight.
func TestRevokedPartitionIsDrainedAndCommitted(t *testing.T) {
	k := newKit(t, 2)
	k.more = append(k.more, kgo.AutoCommitInterval(time.Hour)) // only the revocation commits
	hold := k.holdTwoPartitions()
	joining := k.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Observe: true, Count: -1})
	connected := make(chan struct{})
	go func() {
		k.consume(succeed)
		close(connected)
	}()
	k.Until("joining", func() bool { return joining.Hits() >= 2 })
	k.heartbeats(10)
	close(hold)
	<-connected
	k.Until("committed", func() bool { return k.committed(0) == 1 || k.committed(1) == 1 })
	k.Until("one each", func() bool {
		info := k.cluster.GroupInfo(group)
		return len(info.Members) == 2 && info.Members[0].NumAssigned() == 1 && info.Members[1].NumAssigned() == 1
	})
	if k.Saw(queuesafe.InFlight)+k.Saw(queuesafe.Duplicate) != 0 || k.Ran.Load() != 2 {
		k.Errorf("%d runs, %+v", k.Ran.Load(), k.Events())
	}
}

// holdTwoPartitions runs a consumer until it is at work on one message of each of two partitions. It goes on when hold
// is closed.
func (k *kit) holdTwoPartitions() (hold chan struct{}) {
	k.Helper()
	hold, began := make(chan struct{}), make(chan struct{}, 2)
	k.consume(func(context.Context, queuesafe.Message) error {
		began <- struct{}{}
		k.Wait(hold)
		return nil
	})
	for partition := range int32(2) {
		r := order(fmt.Sprint(partition))
		r.Partition = partition
		k.send(r)
	}
	<-began
	<-began
	return hold
}

// heartbeats waits until the group has had n more; a member sends one every 50 ms.
func (k *kit) heartbeats(n int) {
	k.Helper()
	seen := k.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Observe: true, Count: -1})
	defer seen.Remove()
	k.Until("heard", func() bool { return seen.Hits() >= n })
}

// A handler that is slower than Drain does not hold the group up: it goes on, and the other member leaves its message
// until then. Seen to fail with drain's deadline taken out.
func TestDrainIsBounded(t *testing.T) {
	k := newKit(t, 2)
	k.o.Drain = 50 * time.Millisecond
	hold := k.holdTwoPartitions()
	k.consume(succeed)
	k.Until("found in flight", func() bool { return k.Saw(queuesafe.InFlight) > 0 })
	close(hold)
	k.untilCommitted(0, 1)
	k.untilCommitted(1, 1)
	if k.Ran.Load() != 2 {
		k.Errorf("%d runs", k.Ran.Load())
	}
}

// The group has continued without a member whose handler runs, as after a long pause of the process. Nothing of what it
// had is committed past the gap, and no message is handled twice. Seen to fail with done marking the message that has
// ended.
func TestLostPartitionIsNotCommitted(t *testing.T) {
	k := newKit(t, 1)
	hold, began := make(chan struct{}), make(chan struct{}, 1)
	m := k.consume(func(_ context.Context, m queuesafe.Message) error {
		if m.Position == "0" {
			began <- struct{}{}
			<-hold
		}
		return nil
	})
	k.send(order("a"), order("b"))
	<-began
	k.Until("b processed", func() bool { return k.Saw(queuesafe.Processed) == 1 })
	beats := k.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID, Count: 1})
	k.Until("lost", func() bool { return beats.Hits() == 1 && k.Count(queuesafe.Disconnected) >= 1 })
	k.Until("assigned again", func() bool { return k.Count(queuesafe.Connected) == 2 })
	k.Until("found in flight", func() bool { return k.Saw(queuesafe.InFlight) > 0 && k.Saw(queuesafe.Duplicate) > 0 })
	k.heartbeats(6) // long enough for a commit
	if got := k.committed(0); got > 0 {
		k.Errorf("%d is committed though 0 has not ended", got)
	}
	close(hold)
	k.untilCommitted(0, 2)
	m.stop()
	if k.Ran.Load() != 2 {
		k.Errorf("%d runs", k.Ran.Load())
	}
}

// The broker loses answers, moves partitions and coordinators: every message is processed once, none is lost.
func TestBrokerFaults(t *testing.T) {
	k := newKit(t, 4)
	k.Core.MaxDeliveries = -1
	k.cluster.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RequestTimedOut, Count: 5}, // applied, though answered so
		kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.IllegalGeneration, Count: 2},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 5},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress, Count: 3},
	)
	for range 3 {
		k.consume(succeed)
	}
	const messages = 400
	for i := range messages {
		r := of(fmt.Sprint(i%7), order(fmt.Sprint(i)))
		r.Partition = int32(i % 4)
		k.send(r)
		switch i {
		case 100:
			k.cluster.RehashCoordinators()
		case 200:
			k.cluster.ShufflePartitionLeaders()
		}
	}
	for partition := range int32(4) {
		k.untilCommitted(partition, messages/4)
	}
	if k.Ran.Load() != messages {
		k.Errorf("%d runs of %d messages", k.Ran.Load(), messages)
	}
}

// What a transaction has not committed is not consumed; what it has is, and the gaps that its markers leave hold
// nothing up.
func TestOnlyCommittedTransactionsAreConsumed(t *testing.T) {
	k := newKit(t, 1)
	m := k.consume(succeed)
	producer := k.newClient(kgo.TransactionalID("shop"))
	for i, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := producer.BeginTransaction(); err != nil {
			k.Fatal(err)
		}
		r := order(fmt.Sprint(i))
		r.Topic = topic
		if err := producer.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			k.Fatal(err)
		}
		if err := producer.EndTransaction(context.Background(), commit); err != nil {
			k.Fatal(err)
		}
	}
	k.send(order("b"))
	k.untilCommitted(0, 5) // two records and two markers, and one record
	m.stop()
	if k.Ran.Load() != 2 {
		k.Errorf("%d runs", k.Ran.Load())
	}
}
