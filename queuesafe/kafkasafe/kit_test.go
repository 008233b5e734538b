package kafkasafe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/internal/queuetest"
	"github.com/retrysafe/retrysafe/queuesafe/kafkasafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var errBank = errors.New("the bank says no")

func succeed(context.Context, queuesafe.Message) error { return nil }

const (
	topic = "orders"
	group = queuetest.Name
)

// kit has a cluster of its own, and a store that all its consumers share.
type kit struct {
	*queuetest.Kit
	cluster *kfake.Cluster
	client  *kgo.Client    // the test's own
	counted *countingStore // what Store is
	o       kafkasafe.Options
	more    []kgo.Opt
}

// countingStore counts what a consumer asks of it.
type countingStore struct {
	*memstore.Store
	claims, writes atomic.Int64
}

func (s *countingStore) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	s.claims.Add(1)
	return s.Store.Claim(ctx, p)
}

func (s *countingStore) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result,
	keep retrysafe.Retention,
) error {
	s.writes.Add(1)
	return s.Store.Complete(ctx, l, r, keep)
}

func newKit(t *testing.T, partitions int32) *kit {
	t.Helper()
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic),
		kfake.SeedTopics(1, topic+".dead"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	store := &countingStore{Store: memstore.New(memstore.Options{})}
	k := &kit{Kit: queuetest.New(t, store), cluster: cluster, counted: store}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("committed: %d", k.committed(0))
		}
	})
	k.client = k.newClient()
	k.more = []kgo.Opt{
		kgo.AutoCommitInterval(100 * time.Millisecond),
		kgo.HeartbeatInterval(50 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond),
	}
	return k
}

func (k *kit) newClient(opts ...kgo.Opt) *kgo.Client {
	k.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(k.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(client.Close)
	return client
}

// member is a consumer that runs.
type member struct {
	kill func() // ends its connections and its session, as a crash does; what it was doing goes on
	stop func()
}

// consume runs a consumer with a guard of its own until the test or stop ends it.
func (k *kit) consume(h queuesafe.Handler) member {
	k.Helper()
	guard, consumer, d := k.newConsumer(h)
	return member{kill: func() { d.kill(); k.expire() }, stop: k.Start(guard, consumer.Run)}
}

// expire ends the sessions of all members of the group.
func (k *kit) expire() {
	k.Helper()
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = group
	for _, m := range k.cluster.GroupInfo(group).Members {
		leave.Members = append(leave.Members, kmsg.LeaveGroupRequestMember{MemberID: m.MemberID})
	}
	if answer, err := leave.RequestWith(k.Context(), k.client); err != nil || answer.ErrorCode != 0 {
		k.Fatal(answer, err)
	}
}

func (k *kit) newConsumer(h queuesafe.Handler) (*retrysafe.Guard, *kafkasafe.Consumer, *dialer) {
	k.Helper()
	guard, core := k.NewCore()
	d := &dialer{}
	connect := append(slices.Clone(k.more), kgo.SeedBrokers(k.cluster.ListenAddrs()...), kgo.Dialer(d.dial))
	return guard, kafkasafe.NewConsumer(connect, group, []string{topic}, core, k.Counting(h), k.o), d
}

// send produces records, each acknowledged before the next.
func (k *kit) send(records ...*kgo.Record) {
	k.Helper()
	for _, r := range records {
		if r.Topic == "" {
			r.Topic = topic
		}
		if err := k.client.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			k.Fatal(err)
		}
	}
}

// order is a message of its own: it has a key of its own and no order.
func order(id string) *kgo.Record {
	return &kgo.Record{
		Value:   []byte("order " + id),
		Headers: []kgo.RecordHeader{{Key: queuesafe.KeyHeader, Value: []byte(id)}},
	}
}

// of puts a message in order with others.
func of(key string, r *kgo.Record) *kgo.Record {
	r.Key = []byte(key)
	return r
}

// committed is the offset that the group has committed; -1: none.
func (k *kit) committed(partition int32) int64 {
	info := k.cluster.GroupInfo(group)
	if info == nil {
		return -1
	}
	c, ok := info.Commits[topic][partition]
	if !ok {
		return -1
	}
	return c.Offset
}

func (k *kit) untilCommitted(partition int32, offset int64) {
	k.Helper()
	k.Until(fmt.Sprintf("committed to %d", offset), func() bool { return k.committed(partition) == offset })
}

// get reads the first n records of a topic.
func (k *kit) get(from string, n int) (got []*kgo.Record) {
	k.Helper()
	client := k.newClient(kgo.ConsumeTopics(from), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for len(got) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			k.Fatalf("%d of %d records in %s: %v", len(got), n, from, err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
