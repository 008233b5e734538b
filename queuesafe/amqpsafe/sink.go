package amqpsafe

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Sink sends the outbox's messages to RabbitMQ: it is an outbox.Sink. A message counts as sent once the server has confirmed
// that it is in a queue for good, on the disks of most of its nodes if it is a quorum queue.
type Sink struct {
	publisher *publisher
	options   SinkOptions
}

// SinkOptions may be left empty.
type SinkOptions struct {
	// Exchange that messages are published to. Default: the default exchange, which takes a routing key for a queue's name.
	Exchange string
	// RoutingKey of a message. Default: its Topic.
	RoutingKey func(m outbox.Message) string
	// ContentType of the messages. Default "application/json".
	ContentType string
}

// NewSink returns a Sink. Close frees its connection.
func NewSink(dial DialFunc, o SinkOptions) *Sink {
	if o.RoutingKey == nil {
		o.RoutingKey = func(m outbox.Message) string { return m.Topic }
	}
	if o.ContentType == "" {
		o.ContentType = "application/json"
	}
	return &Sink{publisher: &publisher{dial: dial}, options: o}
}

var _ outbox.Sink = (*Sink)(nil)

// Send publishes the batch, all messages at once, with their keys as message ID and in the header Idempotency-Key. A message that
// no queue takes, since none is bound, has not been sent: it is tried again.
func (s *Sink) Send(ctx context.Context, batch []outbox.Delivery) []error {
	return outbox.Each(maxUnconfirmed, func(ctx context.Context, d outbox.Delivery) error {
		return s.publisher.publish(ctx, s.options.Exchange, s.options.RoutingKey(d.Message), s.publishing(d.Message))
	}).Send(ctx, batch)
}

func (s *Sink) publishing(m outbox.Message) amqp.Publishing {
	headers := make(amqp.Table, len(m.Header)+1)
	for name, value := range queuesafe.WithKey(m.Header, m.Key) {
		headers[name] = value
	}
	return amqp.Publishing{Headers: headers, MessageId: m.Key, ContentType: s.options.ContentType, Body: m.Body}
}

// Close closes the connection.
func (s *Sink) Close() { s.publisher.close() }
