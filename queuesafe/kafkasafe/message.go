package kafkasafe

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// Headers of a dead letter, beside those of the message.
const (
	// ReasonHeader is the queuesafe.Situation.
	ReasonHeader = "x-retrysafe-reason"
	// TopicHeader, PartitionHeader and OffsetHeader are those of the message that was given up.
	TopicHeader     = "x-retrysafe-topic"
	PartitionHeader = "x-retrysafe-partition"
	OffsetHeader    = "x-retrysafe-offset"
)

func source(topic string, partition int32) string { return fmt.Sprintf("%s/%d", topic, partition) }

// messageOf returns the message as its handler sees it. Kafka does not count deliveries: delivery counts those to this
// member.
func messageOf(r *kgo.Record, delivery int) queuesafe.Message {
	h := make(queuesafe.Header, len(r.Headers))
	for _, header := range r.Headers {
		h[header.Key] = append(h[header.Key], string(header.Value))
	}
	return queuesafe.Message{
		Source: source(r.Topic, r.Partition), Position: strconv.FormatInt(r.Offset, 10),
		Header: h, Body: r.Value, Delivery: delivery,
	}
}

// deadLetter returns the record to produce for a message that is given up.
func (c *Consumer) deadLetter(r *kgo.Record, d queuesafe.Disposition) *kgo.Record {
	own := []kgo.RecordHeader{
		{Key: ReasonHeader, Value: []byte(d.Situation.String())},
		{Key: TopicHeader, Value: []byte(r.Topic)},
		{Key: PartitionHeader, Value: strconv.AppendInt(nil, int64(r.Partition), 10)},
		{Key: OffsetHeader, Value: strconv.AppendInt(nil, r.Offset, 10)},
	}
	headers := slices.DeleteFunc(slices.Clone(r.Headers), func(h kgo.RecordHeader) bool {
		return slices.ContainsFunc(own, func(o kgo.RecordHeader) bool { return o.Key == h.Key })
	})
	return &kgo.Record{
		Topic: cmp.Or(c.options.DeadLetters, r.Topic+".dead"), Key: r.Key, Value: r.Value, Headers: append(headers, own...),
	}
}
