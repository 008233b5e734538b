package amqpsafe

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/internal/retry"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Consumer consumes from one queue.
type Consumer struct {
	dial      DialFunc
	consumer  *queuesafe.Consumer
	handler   queuesafe.Handler
	queues    queues
	options   Options
	publisher *publisher
	places    chan struct{} // one for each handler at work, also those whose connection is lost
	running   sync.WaitGroup
}

// Options of a Consumer. Options{} works.
type Options struct {
	// Parallel is how many handlers run at once. Default 16.
	Parallel int
	// Prefetch is how many messages the server sends ahead. Default twice Parallel; at least Parallel.
	Prefetch int
	// Delays that messages may wait before they come again: each has a queue. A delay that is asked for is rounded up to one of
	// these. Default 1 s, 5 s, 15 s and 1 min.
	Delays []time.Duration
	// DeadLetters is the queue for messages that are given up. Default: the queue's name and ".dead".
	DeadLetters string
	// DropDead removes messages that are given up, instead.
	DropDead bool
	// QueueArguments of the queue, as it is declared; if it is there, it must have the same ones. Default: QueueArguments().
	QueueArguments amqp.Table
	// Topology declares what else is needed, such as exchanges and bindings, on every new connection, after the queues. Default:
	// nothing; then producers publish to the default exchange, with the queue's name as routing key.
	Topology func(*amqp.Channel) error
	// MaxPause bounds the pause before another connection is tried; it begins with a fifth of a second and doubles. Default 10 s.
	MaxPause time.Duration
}

func (o Options) withDefaults(queue string) Options {
	o.Parallel = max(cmp.Or(o.Parallel, 16), 1)
	o.Prefetch = max(cmp.Or(o.Prefetch, 2*o.Parallel), o.Parallel)
	if len(o.Delays) == 0 {
		o.Delays = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute}
	}
	o.DeadLetters = cmp.Or(o.DeadLetters, queue+".dead")
	if o.DropDead {
		o.DeadLetters = ""
	}
	if o.QueueArguments == nil {
		o.QueueArguments = QueueArguments()
	}
	o.MaxPause = max(cmp.Or(o.MaxPause, 10*time.Second), firstPause)
	return o
}

// NewConsumer returns a Consumer of a queue. Many may consume from one queue, in many processes.
//
// RabbitMQ takes a message back that is not acknowledged within its consumer_timeout, 30 minutes unless it is configured
// otherwise, and closes the connection's channel: keep Policy.Timeout of the guard below it.
func NewConsumer(dial DialFunc, queue string, c *queuesafe.Consumer, h queuesafe.Handler, o Options) *Consumer {
	o = o.withDefaults(queue)
	return &Consumer{
		dial: dial, consumer: c, handler: h, options: o,
		queues:    newQueues(queue, o),
		publisher: &publisher{dial: dial},
		places:    make(chan struct{}, o.Parallel),
	}
}

const firstPause = 200 * time.Millisecond

// Run consumes until ctx ends, then takes no more messages, waits for the handlers that run, settles their messages, and returns
// nil. What was sent ahead goes back to the queue. Connections that are lost are made again.
//
// It returns an error only if the server refuses the first connection or declaration: the credentials, or a queue that is there with
// other arguments. Run is for one goroutine at a time.
func (c *Consumer) Run(ctx context.Context) error {
	defer c.publisher.close()
	defer c.running.Wait()
	connected := false
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, c.options.MaxPause) {
		s, err := c.connect(ctx)
		switch {
		case err == nil:
			connected, pause = true, firstPause
			c.tell(ctx, queuesafe.Connected, nil)
			err = s.run(ctx)
		case refused(err) && !connected:
			return err
		}
		if ctx.Err() == nil {
			c.tell(ctx, queuesafe.Disconnected, err)
			_ = retry.Wait(ctx, pause/2+rand.N(pause/2)) // Run looks at ctx
		}
	}
	return nil
}

func (c *Consumer) tell(ctx context.Context, kind queuesafe.EventKind, err error) {
	c.consumer.Tell(ctx, queuesafe.Event{Kind: kind, Source: c.queues.main, Err: err})
}
