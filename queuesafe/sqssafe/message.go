package sqssafe

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// Attributes of a dead letter, beside those of the message, as far as SQS's limit of ten allows: the reason first.
const (
	// ReasonAttribute is the queuesafe.Situation.
	ReasonAttribute = "x-retrysafe-reason"
	// IDAttribute is the MessageId that the dead letter had in its queue.
	IDAttribute = "x-retrysafe-id"
)

// maxAttributes is how many a message can have.
const maxAttributes = 10

// messageOf is the message as its handler sees it. Message attributes of the types String and Number are its header.
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

// deliveries are as many as SQS has counted, which it calls approximate.
func deliveries(m types.Message) int {
	n, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)]) // 0: it does not say
	return n
}

// deadLetter is what to send in place of a message that is given up. In a FIFO queue it keeps its group and, as its deduplication ID,
// its MessageId: so one that is sent twice, since its deletion failed, is there once.
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
