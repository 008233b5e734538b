package main

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/queuesafe/amqpsafe"
)

func startRabbitMQ(t *testing.T) broker {
	url := servers.StartRabbitMQ(t, servers.RabbitMQOptions{}).URL()
	conn, err := amqp.Dial(url)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	channel, err := conn.Channel()
	must(t, errors.Join(err, channel.Confirm(false)))
	declare := func(name string) (amqp.Queue, error) { // as the program does; either may be first
		return channel.QueueDeclare(name, true, false, false, false, amqpsafe.QueueArguments())
	}
	_, err = declare("orders")
	must(t, err)
	return broker{
		url,
		func(ctx context.Context, body string) error {
			for { // a new queue may not accept the message yet
				confirmed, err := channel.PublishWithDeferredConfirm("", "orders", true, false,
					amqp.Publishing{Body: []byte(body)})
				if err != nil || confirmed.Wait() {
					return err
				}
			}
		},
		func(context.Context) (int, error) {
			q, err := declare("orders.dead")
			return q.Messages, err
		},
	}
}

func startNATS(t *testing.T) broker {
	url := servers.StartNATS(t, servers.NATSOptions{}).URL()
	conn, err := nats.Connect(url)
	must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	must(t, err)
	return broker{
		url,
		func(ctx context.Context, body string) error {
			// Publishing fails until the program has created the stream.
			_, err := js.Publish(ctx, "orders.new", []byte(body), jetstream.WithRetryAttempts(100))
			return err
		},
		func(ctx context.Context) (int, error) {
			stream, err := js.Stream(ctx, "orders")
			if err != nil {
				return 0, err
			}
			info, err := stream.Info(ctx, jetstream.WithSubjectFilter("orders.dead"))
			if err != nil {
				return 0, err
			}
			return int(info.State.Subjects["orders.dead"]), nil
		},
	}
}

func startKafka(t *testing.T) broker {
	cluster, err := kfake.NewCluster(kfake.SeedTopics(3, "orders"), kfake.SeedTopics(1, "orders.dead"))
	must(t, err)
	t.Cleanup(cluster.Close)
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	must(t, err)
	t.Cleanup(producer.Close)
	return broker{
		"kafka://" + strings.Join(cluster.ListenAddrs(), ","),
		func(ctx context.Context, body string) error {
			return producer.ProduceSync(ctx, kgo.StringRecord(body)).FirstErr()
		},
		func(context.Context) (int, error) {
			return int(cluster.PartitionInfo("orders.dead", 0).HighWatermark), nil
		},
	}
}

func startSQS(t *testing.T) broker {
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	server := servers.StartSQS(t).URL()
	client, err := newSQSClient(server)
	must(t, err)
	create := func(name string) string {
		queue, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
		must(t, err)
		u, err := url.Parse(*queue.QueueUrl)
		must(t, err)
		return server + u.Path // the host in the server's URLs does not resolve
	}
	orders, dead := create("orders"), create("orders-dead")
	return broker{
		orders,
		func(ctx context.Context, body string) error {
			_, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &orders, MessageBody: &body})
			return err
		},
		func(ctx context.Context) (int, error) {
			queue, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
				QueueUrl: &dead, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
			})
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(queue.Attributes["ApproximateNumberOfMessages"])
		},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
