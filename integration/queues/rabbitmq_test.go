package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/amqpsafe"
)

type rabbitMQ struct{}

func (rabbitMQ) start(t testing.TB) (url, version string) {
	url = servers.StartRabbitMQ(t, servers.RabbitMQOptions{}).URL()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return url, fmt.Sprintf("RabbitMQ %v, quorum queues", conn.Properties["version"])
}

var delays = []time.Duration{100 * time.Millisecond, time.Second}

// A paused process keeps its connection until the server misses two heartbeats.
func dialRabbitMQ(url string) amqpsafe.DialFunc {
	return func(context.Context) (*amqp.Connection, error) {
		return amqp.DialConfig(url, amqp.Config{Heartbeat: time.Second})
	}
}

func (rabbitMQ) consume(ctx context.Context, url, queue string, c *queuesafe.Consumer, h queuesafe.Handler) error {
	return amqpsafe.NewConsumer(dialRabbitMQ(url), queue, c, h, amqpsafe.Options{Delays: delays, Parallel: 8}).Run(ctx)
}

func (rabbitMQ) open(t testing.TB, url, name string) queue {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Confirm(false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.QueueDeclare(name, true, false, false, false, amqpsafe.QueueArguments()); err != nil {
		t.Fatal(err)
	}
	return &rabbitQueue{c, name}
}

type rabbitQueue struct {
	channel *amqp.Channel
	name    string
}

func (q *rabbitQueue) publish(t testing.TB, ids []string) {
	t.Helper()
	var confirmed []*amqp.DeferredConfirmation
	for _, id := range ids {
		m := amqp.Publishing{MessageId: id, Body: []byte(id), DeliveryMode: amqp.Persistent}
		d, err := q.channel.PublishWithDeferredConfirm("", q.name, true, false, m)
		if err != nil {
			t.Fatal(err)
		}
		confirmed = append(confirmed, d)
	}
	for _, d := range confirmed {
		if !d.Wait() {
			t.Fatal("a message was not confirmed")
		}
	}
}

func (q *rabbitQueue) left(t testing.TB) (waiting, dead int) {
	t.Helper()
	count := func(name string) int {
		info, err := q.channel.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return info.Messages
	}
	waiting = count(q.name)
	for _, d := range delays {
		waiting += count(fmt.Sprintf("%s.retry.%v", q.name, d))
	}
	return waiting, count(q.name + ".dead")
}
