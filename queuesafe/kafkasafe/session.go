package kafkasafe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// session is one membership of the group, and the partitions that it has at the moment.
type session struct {
	*Consumer
	ctx    context.Context // Run's
	client *kgo.Client
	joined atomic.Bool

	mu         sync.Mutex
	partitions map[place]*partition
}

// place names a partition.
type place struct {
	topic     string
	partition int32
}

func (c *Consumer) open(ctx context.Context) (*session, error) {
	s := &session{Consumer: c, ctx: ctx, partitions: map[place]*partition{}}
	opts := append([]kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, c.connect...)
	opts = append(
		opts,
		kgo.ConsumerGroup(c.group),
		kgo.ConsumeTopics(c.topics...),
		// Partitions come and go only between polls: so no record of one that is gone is taken.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(s.assigned),
		kgo.OnPartitionsRevoked(s.revoked),
		kgo.OnPartitionsLost(s.lost),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(c.options.CommitEvery),
		kgo.AutoCommitCallback(s.committed),
	)
	client, err := kgo.NewClient(opts...)
	s.client = client
	return s, err
}

// poll takes what has been fetched. It never waits for handlers.
func (s *session) poll(ctx context.Context) error {
	fetches := s.client.PollRecords(ctx, s.options.Window)
	defer s.client.AllowRebalance()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		s.mu.Lock()
		p := s.partitions[place{f.Topic, f.Partition}]
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
			at := place{topic, id}
			s.partitions[at] = newPartition(s, at)
		}
	}
	s.mu.Unlock()
	for topic, ids := range all {
		for _, id := range ids {
			s.tell(ctx, queuesafe.Connected, source(topic, id), nil)
		}
	}
}

// revoked gives partitions to other members: what runs may end, and is committed.
func (s *session) revoked(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	gone := s.remove(all)
	for _, p := range gone {
		p.stop()
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Drain)
	defer cancel()
	for _, p := range gone {
		p.drain(drain)
		p.end()
	}
	if len(gone) > 0 {
		s.commit(ctx)
	}
}

// lost is told when another member may have the partitions already: nothing of them is committed.
func (s *session) lost(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	for _, p := range s.remove(all) {
		p.stop()
		p.end()
		s.tell(ctx, queuesafe.Disconnected, source(p.at.topic, p.at.partition), errLost)
	}
}

var errLost = errors.New("kafkasafe: the partition was lost; this member of the group was taken for dead")

func (s *session) remove(all map[string][]int32) (gone []*partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, ids := range all {
		for _, id := range ids {
			at := place{topic, id}
			if p := s.partitions[at]; p != nil {
				gone = append(gone, p)
				delete(s.partitions, at)
			}
		}
	}
	return gone
}

// commit says to the broker what has ended. The group's generation goes along: one that is over is refused.
func (s *session) commit(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := s.client.CommitMarkedOffsets(ctx); err != nil {
		s.tell(ctx, queuesafe.SettleFailed, s.group, err)
	}
}

// committed is told how a commit in the background has ended.
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
