package amqpsafe

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Sink is an outbox.Sink that sends to RabbitMQ. A message counts as sent when the server has confirmed that it is
// stored in a queue; if that is a quorum queue, on the disks of most nodes.
type Sink struct {
	publisher *publisher
	options   SinkOptions
}

// SinkOptions of a Sink. SinkOptions{} works.
type SinkOptions struct {
	// Exchange is the exchange to publish to. Default: the default exchange, whose routing keys are names of queues.
	Exchange string
	// RoutingKey returns the routing key of a message. Default: its Topic.
	RoutingKey func(m outbox.Message) string
	// ContentType of the messages. Default "application/json".
	ContentType string
}

// NewSink returns a Sink. It connects when it has a message to send; Close closes the connection.
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

// Send publishes all messages of the batch concurrently. A message's key is its message ID and its header
// Idempotency-Key.
//
// A message for which no queue is bound is not sent and will be retried. Errors are permanent for messages that the
// protocol or the server cannot accept: a routing key or a header's name of more than 255 bytes, headers larger than a
// frame, a body larger than max_message_size.
func (s *Sink) Send(ctx context.Context, batch []outbox.Delivery) []error {
	answers := outbox.Each(maxUnconfirmed, func(ctx context.Context, d outbox.Delivery) error {
		return s.send(ctx, s.publisher, d.Message)
	}).Send(ctx, batch)
	for _, err := range answers {
		if refusedMessage(err) {
			s.oneByOne(ctx, batch, answers)
			break
		}
	}
	return answers
}

func (s *Sink) send(ctx context.Context, p *publisher, m outbox.Message) error {
	key := s.options.RoutingKey(m)
	if err := unfit(key, m); err != nil {
		return err
	}
	return p.publish(ctx, s.options.Exchange, key, s.publishing(m))
}

// refusedMessage reports whether the server has closed the channel because of a message. All unconfirmed messages fail
// with it.
func refusedMessage(err error) bool {
	var e *amqp.Error
	return errors.As(err, &e) && e.Server && e.Code == amqp.PreconditionFailed
}

// oneByOne publishes the messages that failed with a channel one after the other, to find the one that the server
// refuses.
func (s *Sink) oneByOne(ctx context.Context, batch []outbox.Delivery, answers []error) {
	p := &publisher{dial: s.publisher.dial}
	defer p.close()
	for i, err := range answers {
		var closed *amqp.Error
		if !errors.As(err, &closed) {
			continue
		}
		answers[i] = s.send(ctx, p, batch[i].Message)
		if refusedMessage(answers[i]) {
			answers[i] = outbox.Permanent(answers[i])
		}
	}
}

const (
	maxShort = 255 // bytes of a routing key and of a header's name
	// maxHeaders is how many bytes all headers may have. They are sent in one frame, by RabbitMQ's default of 131,072
	// bytes.
	maxHeaders = 128<<10 - 2048
)

// unfit returns why a message cannot be sent over AMQP. Sending it would close the connection for all other messages.
func unfit(routingKey string, m outbox.Message) error {
	if len(routingKey) > maxShort {
		return outbox.Permanent(fmt.Errorf("amqpsafe: the routing key has %d bytes; the limit is %d", len(routingKey),
			maxShort))
	}
	size := 0
	for name, value := range m.Header {
		if len(name) > maxShort {
			return outbox.Permanent(fmt.Errorf("amqpsafe: the name of a header has %d bytes; the limit is %d",
				len(name), maxShort))
		}
		size += len(name) + len(value) + 6
	}
	if size > maxHeaders {
		return outbox.Permanent(fmt.Errorf("amqpsafe: the headers have %d bytes; the limit is %d", size, maxHeaders))
	}
	return nil
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
