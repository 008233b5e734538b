package natssafe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/internal/retry"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Consumer consumes through a pull consumer of a stream.
type Consumer struct {
	js       jetstream.JetStream
	pull     jetstream.Consumer
	consumer *queuesafe.Consumer
	handler  queuesafe.Handler
	options  Options
	source   string
	ackWait  time.Duration
	slots    chan struct{} // one for each running handler
	running  sync.WaitGroup
}

// Options of a Consumer. Set DeadLetters or DropDead.
type Options struct {
	// Parallel is how many handlers run at once. Default 16.
	Parallel int
	// DeadLetters is the subject to which a copy of a message is published that is given up, before it is terminated.
	// It must belong to a stream that this consumer does not consume from; without such a stream the message is
	// delivered again.
	DeadLetters string
	// DropDead removes messages that are given up, without a dead letter. The server publishes an advisory about each.
	DropDead bool
}

// ConsumerConfig returns the configuration for a durable pull consumer: each message is acknowledged explicitly,
// deliveries are not limited, and AckWait is 30 s. With a limit (MaxDeliver) the server would stop delivering a message
// without a dead letter.
func ConsumerConfig(durable string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxDeliver: -1,
	}
}

// NewConsumer returns a Consumer that pulls from a JetStream consumer. Many Consumers, in many processes, may share a
// JetStream consumer.
//
// It returns an error if neither DeadLetters nor DropDead is set, if the JetStream consumer has no explicit
// acknowledgement, or if its MaxDeliver would give messages up before this Consumer does: see ConsumerConfig.
func NewConsumer(js jetstream.JetStream, pull jetstream.Consumer, c *queuesafe.Consumer, h queuesafe.Handler,
	o Options,
) (*Consumer, error) {
	info := pull.CachedInfo()
	config := info.Config
	limit := c.MaxDeliveries()
	switch {
	case o.DeadLetters == "" && !o.DropDead:
		return nil, errors.New("natssafe: messages that are given up would be lost: set DeadLetters, the subject of a " +
			"stream that keeps them, or DropDead")
	case config.AckPolicy != jetstream.AckExplicitPolicy:
		return nil, fmt.Errorf("natssafe: the consumer %s has AckPolicy %v; it needs AckExplicitPolicy", info.Name,
			config.AckPolicy)
	case config.MaxDeliver > 0 && (limit < 0 || config.MaxDeliver <= limit):
		return nil, fmt.Errorf("natssafe: the consumer %s has MaxDeliver %d: the server would drop messages before "+
			"%d deliveries make them dead letters; set MaxDeliver to -1", info.Name, config.MaxDeliver, limit)
	}
	o.Parallel = max(cmp.Or(o.Parallel, 16), 1)
	return &Consumer{
		js: js, pull: pull, consumer: c, handler: h, options: o, source: info.Stream, ackWait: ackWait(config),
		slots: make(chan struct{}, o.Parallel),
	}, nil
}

// ackWait returns how long the server waits before it delivers a message again.
func ackWait(config jetstream.ConsumerConfig) time.Duration {
	wait := config.AckWait
	for _, d := range config.BackOff { // it replaces AckWait
		wait = min(wait, d)
	}
	return wait
}

const (
	// pullWait is how long a pull request waits for messages; nats.go then sends another one. A pull request fails after
	// two missed heartbeats of the server.
	pullWait      = 5 * time.Second
	pullHeartbeat = time.Second
	// spareBuffer is room for heartbeats: nats.go drops what arrives while its buffer is full.
	spareBuffer = 16
	retryPause  = 200 * time.Millisecond
	// settleTimeout limits the calls to the server about one message.
	settleTimeout = 10 * time.Second
)

// Run consumes until ctx ends. Then it takes no more messages, gives back those that the server has just sent, waits
// for the running handlers, settles their messages and returns nil. If the server does not answer then, that takes up
// to 10 s longer. While the server cannot be reached, Run retries.
//
// It returns an error if the JetStream consumer or its stream is deleted, if the connection is closed, or if the
// consumer would receive its own dead letters. Do not call Run again before it has returned.
func (c *Consumer) Run(ctx context.Context) error {
	if c.takesOwnDeadLetters(ctx) {
		return fmt.Errorf("natssafe: the consumer would receive its own dead letters: give it a filter that excludes "+
			"%s", c.options.DeadLetters)
	}
	defer c.running.Wait()
	for ctx.Err() == nil {
		_, err := c.pull.Info(ctx)
		if err == nil {
			c.tell(ctx, queuesafe.Connected, nil)
			err = c.consume(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case deleted(err):
			return err
		}
		c.tell(ctx, queuesafe.Disconnected, err)
		_ = retry.Wait(ctx, retryPause)
	}
	return nil
}

// consume pulls as many messages as there are free slots, so that none waits in this process while AckWait runs. It
// returns when ctx ends, or with the first error.
func (c *Consumer) consume(ctx context.Context) error {
	for ctx.Err() == nil {
		free := c.take(ctx)
		if free == 0 {
			break
		}
		left, err := c.fetch(ctx, free)
		for range left {
			<-c.slots
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take waits for a free slot, and takes all free slots. It returns 0 if ctx ends before.
func (c *Consumer) take(ctx context.Context) int {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n := 1; ; n++ {
		select {
		case c.slots <- struct{}{}:
		default:
			return n
		}
	}
}

// fetch starts handlers for messages as they arrive, each in one of the free slots, which the caller has taken. It
// returns when all of these slots are used, when ctx ends, or when it fails, and returns how many slots are unused.
//
// If it ends early, it drains: it unsubscribes, and waits for the messages that the server has sent until then. Once
// ctx has ended, handle gives them back. If they were dropped, as Consumer.Fetch of nats.go does when its context ends,
// the server would deliver them again only after AckWait.
func (c *Consumer) fetch(ctx context.Context, free int) (left int, err error) {
	conn := c.js.Conn()
	lost := conn.StatusChanged(nats.RECONNECTING)
	defer conn.RemoveStatusListener(lost)
	if !conn.IsConnected() {
		return free, nats.ErrDisconnected
	}
	messages, err := c.pull.Messages(jetstream.StopAfter(free), jetstream.PullMaxMessages(free+spareBuffer),
		jetstream.PullExpiry(pullWait), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return free, err
	}
	drain := func() {
		if conn.IsConnected() {
			messages.Drain()
		} else { // nothing arrives any more, and nats.go would renew a subscription that is draining
			messages.Stop()
		}
	}
	wait, end := context.WithCancelCause(ctx)
	defer end(nil)
	context.AfterFunc(wait, drain)
	go func() {
		if _, open := <-lost; open {
			end(nats.ErrDisconnected)
		}
	}()
	for {
		msg, err := messages.Next()
		switch {
		case err == nil:
			free--
			c.running.Go(func() {
				defer func() { <-c.slots }()
				c.handle(ctx, msg)
			})
		case !errors.Is(err, jetstream.ErrMsgIteratorClosed):
			end(err)
			drain() // before Next, which would send another pull request
		case errors.Is(err, jetstream.ErrConnectionClosed):
			return free, err
		default:
			return free, context.Cause(wait)
		}
	}
}

func (c *Consumer) tell(ctx context.Context, kind queuesafe.EventKind, err error) {
	c.consumer.Tell(ctx, queuesafe.Event{Kind: kind, Source: c.source, Err: err})
}

// handle handles and settles a message.
func (c *Consumer) handle(ctx context.Context, msg jetstream.Msg) {
	at, err := msg.Metadata()
	if err != nil {
		c.tell(ctx, queuesafe.SettleFailed, err)
		return
	}
	m := messageOf(msg, at, c.ackWait)
	d := c.consumer.Handle(ctx, m, c.handler)
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := c.settle(call, msg, at, d); err != nil {
		c.consumer.Tell(ctx, queuesafe.Event{Kind: queuesafe.SettleFailed, Source: m.Source, Delivery: m.Delivery, Err: err})
	}
}

func (c *Consumer) settle(ctx context.Context, msg jetstream.Msg, at *jetstream.MsgMetadata,
	d queuesafe.Disposition,
) error {
	switch {
	case d.Action == queuesafe.Ack:
		return msg.DoubleAck(ctx)
	case d.Action == queuesafe.Later:
		return msg.NakWithDelay(d.Delay)
	case c.options.DeadLetters != "":
		if err := c.bury(ctx, msg, at, d); err != nil {
			return errors.Join(err, msg.NakWithDelay(time.Second))
		}
	}
	return msg.TermWithReason(d.Situation.String())
}

// bury publishes a dead letter. If it is too large with the headers that were added, bury publishes it without them.
func (c *Consumer) bury(ctx context.Context, msg jetstream.Msg, at *jetstream.MsgMetadata,
	d queuesafe.Disposition,
) error {
	letter := deadLetter(c.options.DeadLetters, msg, at, d)
	_, err := c.js.PublishMsg(ctx, letter)
	if outbox.IsPermanent(classify(err)) {
		for _, own := range []string{nats.MsgIdHdr, ReasonHeader, SubjectHeader, IDHeader, DeliveriesHeader} {
			letter.Header.Del(own)
		}
		_, err = c.js.PublishMsg(ctx, letter)
	}
	return err
}

// deleted reports whether the consumer or its stream was deleted, or the connection closed.
func deleted(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConnectionClosed)
}
