package queues

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/natssafe"
)

type natsJetStream struct{}

func (natsJetStream) start(t testing.TB) (url, version string) {
	url = servers.StartNATS(t, servers.NATSOptions{}).URL()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return url, "NATS " + conn.ConnectedServerVersion() + ", JetStream"
}

func (natsJetStream) consume(ctx context.Context, url, name string, c *queuesafe.Consumer, h queuesafe.Handler) error {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	config := natssafe.ConsumerConfig("billing")
	config.AckWait = time.Second
	pull, err := js.CreateOrUpdateConsumer(context.Background(), name, config)
	if err != nil {
		return err
	}
	consumer, err := natssafe.NewConsumer(js, pull, c, h, natssafe.Options{DeadLetters: "dead", Parallel: 8})
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

func (natsJetStream) open(t testing.TB, url, name string) queue {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	q := &natsQueue{js: js, name: name}
	for _, subject := range []string{name, "dead"} {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: subject, Subjects: []string{subject}, Retention: jetstream.WorkQueuePolicy,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return q
}

type natsQueue struct {
	js   jetstream.JetStream
	name string
}

// publish sets no message ID, so that the stream does not drop copies.
func (q *natsQueue) publish(t testing.TB, ids []string) {
	t.Helper()
	var answers []jetstream.PubAckFuture
	for _, id := range ids {
		m := nats.NewMsg(q.name)
		m.Header.Set(queuesafe.KeyHeader, id)
		m.Data = []byte(id)
		a, err := q.js.PublishMsgAsync(m)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	for _, a := range answers {
		select {
		case <-a.Ok():
		case err := <-a.Err():
			t.Fatal(err)
		}
	}
}

func (q *natsQueue) left(t testing.TB) (waiting, dead int) {
	t.Helper()
	count := func(name string) int {
		s, err := q.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return int(s.CachedInfo().State.Msgs)
	}
	return count(q.name), count("dead")
}
