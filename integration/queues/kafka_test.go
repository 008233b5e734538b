package queues

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/kafkasafe"
)

// kafka is franz-go's fake broker, in the test process. Members of its group come and go with the consumer processes.
type kafka struct{}

const partitions = 6

func (kafka) start(t testing.TB) (url, version string) {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(3), kfake.SeedTopics(partitions, "orders"), kfake.SeedTopics(1, "orders.dead"),
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "100"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return strings.Join(cluster.ListenAddrs(), ","), "Kafka's protocol by kfake of 2026-09-18"
}

func (kafka) consume(ctx context.Context, url, queue string, c *queuesafe.Consumer, h queuesafe.Handler) error {
	connect := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(url, ",")...), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.AutoCommitInterval(200 * time.Millisecond),
		// A paused process leaves the group after a second.
		kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.RebalanceTimeout(4 * time.Second),
	}
	o := kafkasafe.Options{Parallel: 8, Window: 200, Drain: time.Second}
	return kafkasafe.NewConsumer(connect, "billing", []string{queue}, c, h, o).Run(ctx)
}

func (kafka) open(t testing.TB, url, name string) queue {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(url, ",")...),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &kafkaQueue{client, name}
}

type kafkaQueue struct {
	client *kgo.Client
	name   string
}

// publish puts the copies of a message into different partitions.
func (q *kafkaQueue) publish(t testing.TB, ids []string) {
	t.Helper()
	var records []*kgo.Record
	for _, id := range ids {
		records = append(records, &kgo.Record{
			Topic: q.name, Value: []byte(id), Headers: []kgo.RecordHeader{{Key: queuesafe.KeyHeader, Value: []byte(id)}},
		})
	}
	if err := q.client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// left counts the messages that the group has not committed.
func (q *kafkaQueue) left(t testing.TB) (waiting, dead int) {
	t.Helper()
	waiting = int(q.end(t, q.name) - q.committed(t))
	return waiting, int(q.end(t, q.name+".dead"))
}
