package amqpsafe

import (
	"fmt"
	"maps"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// Headers of the messages that a Consumer publishes.
const (
	// DeliveriesHeader is the number of deliveries of a message before it was last copied to a retry queue or to the
	// dead letters.
	DeliveriesHeader = "x-retrysafe-deliveries"
	// ReasonHeader is the queuesafe.Situation of a dead letter.
	ReasonHeader = "x-retrysafe-reason"
	// QueueHeader is the queue from which a dead letter was consumed.
	QueueHeader = "x-retrysafe-queue"
)

// deliveryCount is the header in which a quorum queue counts how often a message was returned to it.
const deliveryCount = "x-delivery-count"

// messageOf returns the message as its handler sees it.
func messageOf(queue string, d *amqp.Delivery) queuesafe.Message {
	return queuesafe.Message{
		ID: d.MessageId, Source: queue, Header: headerOf(d.Headers), Body: d.Body, Delivery: deliveries(d),
	}
}

// deliveries returns the number of this delivery, counted over all copies of the message.
func deliveries(d *amqp.Delivery) int {
	n := number(d.Headers[DeliveriesHeader]) + 1
	back, counted := d.Headers[deliveryCount]
	switch {
	case counted:
		n += number(back)
	case d.Redelivered: // a classic queue does not count
		n++
	}
	return n
}

// mostCounted is what larger numbers of deliveries count as. Publishers can write any number into a header, and a sum
// that overflows would have a message delivered for ever.
const mostCounted = 1_000_000

// number returns a number of deliveries from a header; 0 if it is none.
func number(v any) int {
	var n int64
	switch v := v.(type) {
	case int64:
		n = v
	case int32:
		n = int64(v)
	case int16:
		n = int64(v)
	case int8:
		n = int64(v)
	}
	return int(max(0, min(n, mostCounted)))
}

// headerOf returns the headers that can be written as text. Others, such as tables, are left out.
func headerOf(t amqp.Table) queuesafe.Header {
	h := make(queuesafe.Header, len(t))
	for name, v := range t {
		if list, ok := v.([]any); ok {
			for _, v := range list {
				addText(h, name, v)
			}
			continue
		}
		addText(h, name, v)
	}
	return h
}

func addText(h queuesafe.Header, name string, v any) {
	switch v := v.(type) {
	case string:
		h[name] = append(h[name], v)
	case []byte:
		h[name] = append(h[name], string(v))
	case bool, int, int8, int16, int32, int64, uint8, uint16, uint32, float32, float64:
		h[name] = append(h[name], fmt.Sprint(v))
	}
}

// copyOf returns a message to publish in place of one that was delivered. It leaves out what would send the copy to
// other queues too (CC, BCC), what the server would refuse from this user, and what would make the copy expire.
func copyOf(d *amqp.Delivery) amqp.Publishing {
	headers := maps.Clone(d.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	for _, name := range []string{
		"CC", "BCC", deliveryCount, "x-death", "x-first-death-exchange",
		"x-first-death-queue", "x-first-death-reason",
	} {
		delete(headers, name)
	}
	headers[DeliveriesHeader] = int64(deliveries(d))
	return amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type,
		AppId: d.AppId, Body: d.Body,
	}
}
