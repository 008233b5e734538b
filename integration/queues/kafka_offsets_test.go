package queues

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// end returns the sum of the end offsets of a topic's partitions.
func (q *kafkaQueue) end(t testing.TB, topic string) (sum int64) {
	t.Helper()
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	for id := range int32(partitions) {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = id, -1
		asked.Partitions = append(asked.Partitions, p)
	}
	if topic != q.name {
		asked.Partitions = asked.Partitions[:1]
	}
	request.Topics = append(request.Topics, asked)
	for _, shard := range q.client.RequestSharded(context.Background(), request) {
		if shard.Err != nil {
			t.Fatal(shard.Err)
		}
		for _, p := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				t.Fatal(err)
			}
			sum += p.Offset
		}
	}
	return sum
}

// committed returns the sum of the offsets that the group has committed.
func (q *kafkaQueue) committed(t testing.TB) (sum int64) {
	t.Helper()
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group = "billing"
	asked := kmsg.NewOffsetFetchRequestTopic()
	asked.Topic = q.name
	for id := range int32(partitions) {
		asked.Partitions = append(asked.Partitions, id)
	}
	request.Topics = append(request.Topics, asked)
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = "billing"
	inGroup := kmsg.NewOffsetFetchRequestGroupTopic()
	inGroup.Topic, inGroup.Partitions = q.name, asked.Partitions
	group.Topics = append(group.Topics, inGroup)
	request.Groups = append(request.Groups, group)
	answer, err := request.RequestWith(context.Background(), q.client)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range answer.Groups {
		for _, topic := range g.Topics {
			for _, p := range topic.Partitions {
				sum += max(p.Offset, 0)
			}
		}
	}
	return sum
}
