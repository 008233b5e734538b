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

// Consumer consumes through one pull consumer of a stream.
type Consumer struct {
	js       jetstream.JetStream
	pull     jetstream.Consumer
	consumer *queuesafe.Consumer
	handler  queuesafe.Handler
	options  Options
	source   string
	ackWait  time.Duration
	places   chan struct{} // one for each handler at work
	running  sync.WaitGroup
}

// Options of a Consumer. Options{} works.
type Options struct {
	// Parallel is how many handlers run at once. Default 16.
	Parallel int
	// DeadLetters is the subject to which a copy of a message goes that is given up, before it is terminated. Have a stream that
	// keeps it, and that this consumer does not take from: without one, the message is left to come again. Default: no copies; what is given up is only noted by the
	// server, in an advisory.
	DeadLetters string
}

// ConsumerConfig is what a durable pull consumer should be like: it acknowledges each message by itself, never gives one up on its
// own account, and waits 30 s for a sign of life. With a limit of the server's own, MaxDeliver, a message would just not be
// delivered any more, without a dead letter.
func ConsumerConfig(durable string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxDeliver: -1,
	}
}

// NewConsumer returns a Consumer that pulls by way of a JetStream consumer. Many may share it, in many processes.
//
// It returns an error if the JetStream consumer does not acknowledge explicitly, or if it would give messages up before this
// one does: see ConsumerConfig.
func NewConsumer(js jetstream.JetStream, pull jetstream.Consumer, c *queuesafe.Consumer, h queuesafe.Handler, o Options) (*Consumer, error) {
	info := pull.CachedInfo()
	config := info.Config
	limit := c.MaxDeliveries()
	switch {
	case config.AckPolicy != jetstream.AckExplicitPolicy:
		return nil, fmt.Errorf("natssafe: the consumer %s has the policy %v, it needs explicit acknowledgement", info.Name, config.AckPolicy)
	case config.MaxDeliver > 0 && (limit < 0 || config.MaxDeliver <= limit):
		return nil, fmt.Errorf("natssafe: the consumer %s delivers %d times at most: messages would vanish before %d deliveries "+
			"have made them dead letters; set MaxDeliver to -1", info.Name, config.MaxDeliver, limit)
	}
	o.Parallel = max(cmp.Or(o.Parallel, 16), 1)
	return &Consumer{
		js: js, pull: pull, consumer: c, handler: h, options: o, source: info.Stream, ackWait: ackWait(config),
		places: make(chan struct{}, o.Parallel),
	}, nil
}

// ackWait is how long the server waits for a sign of life.
func ackWait(config jetstream.ConsumerConfig) time.Duration {
	wait := config.AckWait
	for _, d := range config.BackOff { // it takes the place of AckWait
		wait = min(wait, d)
	}
	return wait
}

const (
	// pullWait is how long a pull request waits for messages; after pullHeartbeat without a sign of the server, twice, it is lost.
	pullWait      = 5 * time.Second
	pullHeartbeat = time.Second
	retryPause    = 200 * time.Millisecond
	// settleTimeout bounds what is said to the server about one message.
	settleTimeout = 10 * time.Second
)

// Run consumes until ctx ends, then takes no more messages, waits for the handlers that run, settles their messages, and returns
// nil. While the server is away, it waits.
//
// It returns an error if the JetStream consumer or its stream is deleted, if the connection is closed for good, or if the consumer
// would be given its own dead letters. Run is for one goroutine at a time.
func (c *Consumer) Run(ctx context.Context) error {
	if c.takesOwnDeadLetters(ctx) {
		return fmt.Errorf("natssafe: the consumer takes its own dead letters: give it a filter without %s", c.options.DeadLetters)
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
		case gone(err):
			return err
		}
		c.tell(ctx, queuesafe.Disconnected, err)
		_ = retry.Wait(ctx, retryPause)
	}
	return nil
}

// consume asks for as many messages as there are places free, so that none waits here while AckWait runs, until ctx ends or
// something is wrong.
func (c *Consumer) consume(ctx context.Context) error {
	for {
		free := c.take(ctx)
		if free == 0 {
			return nil
		}
		left, err := c.fetch(ctx, free)
		for range left {
			<-c.places
		}
		if err != nil {
			return err
		}
	}
}

// take takes all places that are free, once there is one; none if ctx ends before.
func (c *Consumer) take(ctx context.Context) int {
	select {
	case c.places <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n := 1; ; n++ {
		select {
		case c.places <- struct{}{}:
		default:
			return n
		}
	}
}

// fetch starts handlers in places that have been taken, as messages come, and returns how many places are left when no more
// come for a while.
func (c *Consumer) fetch(ctx context.Context, free int) (left int, err error) {
	wait, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	batch, err := c.pull.Fetch(free, jetstream.FetchContext(wait), jetstream.FetchHeartbeat(pullHeartbeat))
	if err != nil {
		return free, err
	}
	for msg := range batch.Messages() {
		free--
		c.running.Go(func() {
			defer func() { <-c.places }()
			c.handle(ctx, msg)
		})
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return free, err
	}
	return free, nil
}

func (c *Consumer) tell(ctx context.Context, kind queuesafe.EventKind, err error) {
	c.consumer.Tell(ctx, queuesafe.Event{Kind: kind, Source: c.source, Err: err})
}

// handle has a message handled and settled.
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

func (c *Consumer) settle(ctx context.Context, msg jetstream.Msg, at *jetstream.MsgMetadata, d queuesafe.Disposition) error {
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

// bury publishes a dead letter, with nothing added if it is too large then: the message may be as large as any can be.
func (c *Consumer) bury(ctx context.Context, msg jetstream.Msg, at *jetstream.MsgMetadata, d queuesafe.Disposition) error {
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

// gone reports whether there is nothing left to consume from.
func gone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConnectionClosed)
}
