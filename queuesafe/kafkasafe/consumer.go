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
	places   chan struct{} // one for each handler at work, also those whose partition is gone
	running  sync.WaitGroup
}

// Options of a Consumer. Options{} works.
type Options struct {
	// Parallel is how many handlers run at once, over all partitions. Default 16.
	Parallel int
	// Order says which messages of a partition are in order: those for which it returns the same text, each after the one before
	// it has ended. "" is in no order. Default: the record's key.
	Order func(r *kgo.Record) string
	// Window is how many messages of a partition are taken ahead of the first one that has not ended, before the partition is
	// paused; what was fetched together may exceed it. Default 1000.
	Window int
	// Drain is how long handlers may go on when their partition goes to another member. It must be well below kgo.RebalanceTimeout, which
	// is one minute by default. Default 20 s.
	Drain time.Duration
	// CommitEvery is the time between commits. What is not committed is delivered again after a crash. Default 1 s; at least a tenth
	// of it.
	CommitEvery time.Duration
	// DeadLetters is the topic for messages that are given up. It must be there. Default: the message's topic and ".dead".
	DeadLetters string
	// DropDead removes messages that are given up, instead.
	DropDead bool
	// MaxPause bounds the pause after an error of the broker's; it begins with a fifth of a second and doubles. Default 10 s.
	MaxPause time.Duration
}

func (o Options) withDefaults() Options {
	o.Parallel = max(cmp.Or(o.Parallel, 16), 1)
	if o.Order == nil {
		o.Order = func(r *kgo.Record) string { return string(r.Key) }
	}
	o.Window = max(cmp.Or(o.Window, 1000), 1)
	o.Drain = cmp.Or(o.Drain, 20*time.Second)
	o.CommitEvery = max(cmp.Or(o.CommitEvery, time.Second), 100*time.Millisecond)
	o.MaxPause = max(cmp.Or(o.MaxPause, 10*time.Second), firstPause)
	return o
}

// NewConsumer returns a Consumer of topics, as a member of a group. connect says how the brokers are reached, and may set anything
// else of a client but what a Consumer lives by: the group, its callbacks, and what is committed. Default: records of
// transactions that were not committed are not consumed, and a new group begins with what is there.
//
// Name the group as the queuesafe.Consumer: two groups with one such name share their keys, so that each message is processed by one of
// the groups only.
func NewConsumer(connect []kgo.Opt, group string, topics []string, c *queuesafe.Consumer, h queuesafe.Handler, o Options) *Consumer {
	o = o.withDefaults()
	return &Consumer{
		connect: connect, group: group, topics: topics, consumer: c, handler: h, options: o,
		places: make(chan struct{}, o.Parallel),
	}
}

const (
	firstPause = 200 * time.Millisecond
	// callTimeout bounds a commit, and what is said about one message.
	callTimeout = 30 * time.Second
)

// Run consumes until ctx ends, then begins with no more messages, waits for the handlers that run, commits what has ended, leaves
// the group and returns nil. Connections that are lost are made again.
//
// It returns an error only if the options contradict each other, or if the brokers refuse the group or a topic to begin with.
// Run is for one goroutine at a time.
func (c *Consumer) Run(ctx context.Context) error {
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer s.client.CloseAllowingRebalance() // commits too: it gives the partitions back
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
		_ = retry.Wait(ctx, pause/2+rand.N(pause/2)) // Run looks at ctx
		pause = min(2*pause, c.options.MaxPause)
	}
	return nil
}

// refused reports whether the brokers understood and said no: trying again will not help.
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
