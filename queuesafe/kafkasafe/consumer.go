package kafkasafe

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/internal/retry"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Consumer is a member of a consumer group.
type Consumer struct {
	connect  []kgo.Opt
	group    string
	topics   []string
	consumer *queuesafe.Consumer
	handler  queuesafe.Handler
	options  Options
	slots    chan struct{} // one for each running handler, also those whose partition was taken away
	running  sync.WaitGroup
}

// Options of a Consumer. Options{} works.
type Options struct {
	// Parallel is how many handlers run at once, over all partitions. Default 16.
	Parallel int
	// Order returns the order key of a record. Messages of a partition with the same order key are handled one after
	// the other; messages whose order key is "" are handled in any order. Default: the record's key.
	Order func(r *kgo.Record) string
	// Window is how many messages of a partition may be taken beyond the first one that has not ended, before the
	// partition is paused. Messages that were fetched together may exceed it. Default 1000.
	Window int
	// Drain is how long a rebalance waits for the running handlers of a partition that moves to another member. It must
	// be well below kgo.RebalanceTimeout, which is one minute by default. Default 20 s.
	Drain time.Duration
	// DeadLetters is the topic for messages that are given up. It must exist. Default: the message's topic followed by
	// ".dead".
	DeadLetters string
	// DropDead removes messages that are given up, without a dead letter.
	DropDead bool
}

func (o Options) withDefaults() Options {
	o.Parallel = max(cmp.Or(o.Parallel, 16), 1)
	if o.Order == nil {
		o.Order = func(r *kgo.Record) string { return string(r.Key) }
	}
	o.Window = max(cmp.Or(o.Window, 1000), 1)
	o.Drain = cmp.Or(o.Drain, 20*time.Second)
	return o
}

// NewConsumer returns a Consumer of topics, as a member of a group. connect has the options to reach the brokers, and
// may have any other option of a client except those that the Consumer sets itself: the group, its callbacks, and
// what is committed. By default, records of uncommitted transactions are not consumed, a new group begins with the
// oldest record, and offsets are committed every second (kgo.AutoCommitInterval).
//
// Give the group the name of the queuesafe.Consumer: two groups whose Consumers have the same name share their keys, so
// that each message is processed by only one of the groups.
func NewConsumer(connect []kgo.Opt, group string, topics []string, c *queuesafe.Consumer, h queuesafe.Handler,
	o Options,
) *Consumer {
	o = o.withDefaults()
	return &Consumer{
		connect: connect, group: group, topics: topics, consumer: c, handler: h, options: o,
		slots: make(chan struct{}, o.Parallel),
	}
}

const (
	// After an error of the brokers the consumer pauses for firstPause; pauses double up to maxPause.
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second
	// callTimeout limits a commit, and the calls to the brokers about one message.
	callTimeout = 30 * time.Second
)

// Run consumes until ctx ends. Then it starts no more handlers, waits for the running ones, commits what has ended,
// leaves the group and returns nil. The client reconnects after a lost connection.
//
// It returns an error only if the client's options are invalid, or if the brokers refuse the group or a topic before
// this member has joined. Do not call Run again before it has returned.
func (c *Consumer) Run(ctx context.Context) error {
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer s.client.CloseAllowingRebalance() // commits too, because it gives the partitions back
	defer c.running.Wait()
	for pause := firstPause; ctx.Err() == nil; {
		err := s.poll(ctx)
		switch {
		case err == nil:
			pause = firstPause
			continue
		case ctx.Err() != nil:
			return nil
		case refused(err) && !s.joined.Load():
			return err
		}
		c.tell(ctx, queuesafe.Disconnected, c.group, err)
		_ = retry.Wait(ctx, pause/2+rand.N(pause/2)) // the loop checks ctx
		pause = min(2*pause, maxPause)
	}
	return nil
}

// refused reports whether the brokers have refused a request, so that a retry will not help.
func refused(err error) bool {
	for _, no := range []error{
		kerr.SaslAuthenticationFailed, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.InvalidGroupID,
		kerr.InvalidTopicException, kerr.InconsistentGroupProtocol,
	} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

func (c *Consumer) tell(ctx context.Context, kind queuesafe.EventKind, source string, err error) {
	c.consumer.Tell(ctx, queuesafe.Event{Kind: kind, Source: source, Err: err})
}
