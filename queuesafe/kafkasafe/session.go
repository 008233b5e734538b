package kafkasafe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// session is a membership of the group, with the partitions that are assigned to it.
type session struct {
	*Consumer
	ctx    context.Context // that of Run
	client *kgo.Client
	joined atomic.Bool

	mu         sync.Mutex
	partitions map[partitionID]*partition
}

// partitionID names a partition.
type partitionID struct {
	topic     string
	partition int32
}

func (c *Consumer) open(ctx context.Context) (*session, error) {
	s := &session{Consumer: c, ctx: ctx, partitions: map[partitionID]*partition{}}
	opts := append([]kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(time.Second),
	}, c.connect...)
	opts = append(
		opts,
		kgo.ConsumerGroup(c.group),
		kgo.ConsumeTopics(c.topics...),
		// Assignments change only between polls, so that no record of a partition that was taken away is handled.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(s.assigned),
		kgo.OnPartitionsRevoked(s.revoked),
		kgo.OnPartitionsLost(s.lost),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitCallback(s.committed),
	)
	client, err := kgo.NewClient(opts...)
	s.client = client
	return s, err
}

// poll takes the fetched records. It never waits for handlers.
func (s *session) poll(ctx context.Context) error {
	fetches := s.client.PollRecords(ctx, s.options.Window)
	defer s.client.AllowRebalance()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		s.mu.Lock()
		p := s.partitions[partitionID{f.Topic, f.Partition}]
		s.mu.Unlock()
		if p != nil {
			p.take(f.Records)
		}
	})
	var first error
	fetches.EachError(func(_ string, _ int32, err error) {
		if first == nil {
			first = err
		}
	})
	return first
}

func (s *session) assigned(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	s.joined.Store(true)
	s.mu.Lock()
	for topic, ids := range all {
		for _, id := range ids {
			pid := partitionID{topic, id}
			s.partitions[pid] = newPartition(s, pid)
		}
	}
	s.mu.Unlock()
	for topic, ids := range all {
		for _, id := range ids {
			s.tell(ctx, queuesafe.Connected, source(topic, id), nil)
		}
	}
}

// revoked gives partitions up for other members, after waiting for running handlers, and commits what has ended.
func (s *session) revoked(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	removed := s.remove(all)
	for _, p := range removed {
		p.stop()
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Drain)
	defer cancel()
	for _, p := range removed {
		p.drain(drain)
		p.end()
	}
	if len(removed) > 0 {
		s.commit(ctx)
	}
}

// lost is called when another member may already have the partitions: nothing of them is committed.
func (s *session) lost(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	for _, p := range s.remove(all) {
		p.stop()
		p.end()
		s.tell(ctx, queuesafe.Disconnected, source(p.id.topic, p.id.partition), errLost)
	}
}

var errLost = errors.New("kafkasafe: the partition was lost: the group has removed this member")

func (s *session) remove(all map[string][]int32) (removed []*partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, ids := range all {
		for _, id := range ids {
			pid := partitionID{topic, id}
			if p := s.partitions[pid]; p != nil {
				removed = append(removed, p)
				delete(s.partitions, pid)
			}
		}
	}
	return removed
}

// commit commits what has ended. The broker refuses a commit of an earlier generation of the group.
func (s *session) commit(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := s.client.CommitMarkedOffsets(ctx); err != nil {
		s.tell(ctx, queuesafe.SettleFailed, s.group, err)
	}
}

// committed receives the result of a commit in the background.
func (s *session) committed(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
	if err == nil && answer != nil {
		err = commitError(answer)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.tell(s.ctx, queuesafe.SettleFailed, s.group, err)
	}
}

func commitError(answer *kmsg.OffsetCommitResponse) error {
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
