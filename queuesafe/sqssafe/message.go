package sqssafe

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// Attributes that are added to a dead letter as far as SQS's limit of ten attributes allows; the reason has precedence.
const (
	// ReasonAttribute is the queuesafe.Situation.
	ReasonAttribute = "x-retrysafe-reason"
	// IDAttribute is the MessageId of the message that was given up.
	IDAttribute = "x-retrysafe-id"
)

// maxAttributes is SQS's limit for a message.
const maxAttributes = 10

// messageOf returns the message as its handler sees it. Message attributes of the types String and Number are its
// headers.
func (c *Consumer) messageOf(m types.Message) queuesafe.Message {
	h := make(queuesafe.Header, len(m.MessageAttributes))
	for name, v := range m.MessageAttributes {
		if v.StringValue != nil {
			h[name] = []string{*v.StringValue}
		}
	}
	return queuesafe.Message{
		ID: c.id(m), Source: c.queue, Header: h, Body: []byte(aws.ToString(m.Body)), Delivery: deliveries(m),
	}
}

func (c *Consumer) id(m types.Message) string {
	if c.options.DeduplicationID {
		if id := m.Attributes[string(types.MessageSystemAttributeNameMessageDeduplicationId)]; id != "" {
			return id
		}
	}
	return aws.ToString(m.MessageId)
}

// deliveries returns how often SQS says it has delivered the message; SQS calls the number approximate.
func deliveries(m types.Message) int {
	// 0: SQS did not send it
	n, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	return n
}

// deadLetter returns the dead letter for a message. In a FIFO queue it keeps the message's group, and its deduplication
// ID is the MessageId, so that SQS drops a second copy, which is sent if deleting the message has failed.
func (c *Consumer) deadLetter(m types.Message, d queuesafe.Disposition) *sqs.SendMessageInput {
	attributes := make(map[string]types.MessageAttributeValue, maxAttributes)
	for name, v := range m.MessageAttributes {
		attributes[name] = v
	}
	for _, own := range []struct{ name, value string }{
		{ReasonAttribute, d.Situation.String()}, {IDAttribute, aws.ToString(m.MessageId)},
	} {
		if _, there := attributes[own.name]; there || len(attributes) < maxAttributes {
			attributes[own.name] = text(own.value)
		}
	}
	in := &sqs.SendMessageInput{QueueUrl: &c.options.DeadLetters, MessageBody: m.Body, MessageAttributes: attributes}
	if isFIFO(c.options.DeadLetters) {
		in.MessageDeduplicationId = m.MessageId
		in.MessageGroupId = m.MessageId
		if group := m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]; group != "" {
			in.MessageGroupId = &group
		}
	}
	return in
}

func text(s string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &s}
}
