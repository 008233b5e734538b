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
	slots     chan struct{} // one for each running handler, also those whose connection is lost
	running   sync.WaitGroup
}

// Options of a Consumer. Options{} works.
type Options struct {
	// Parallel is how many handlers run at once. Default 16.
	Parallel int
	// Prefetch is how many messages the server sends ahead. Default twice Parallel; at least Parallel.
	Prefetch int
	// Delays are the possible delays before a message is delivered again. Each has a queue. The delay of a message is
	// rounded up to one of them. Default 1 s, 5 s, 15 s and 1 min.
	Delays []time.Duration
	// DeadLetters is the queue for messages that are given up. Default: the queue's name followed by ".dead".
	DeadLetters string
	// DropDead removes messages that are given up, without a dead letter.
	DropDead bool
	// QueueArguments are those with which the queue is declared. If it exists, it must have the same. Default:
	// QueueArguments().
	QueueArguments amqp.Table
	// Topology declares further objects, such as exchanges and bindings, on every new connection, after the queues.
	// Default: none; producers then publish to the default exchange, with the queue's name as routing key.
	Topology func(*amqp.Channel) error
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
	return o
}

// NewConsumer returns a Consumer of a queue. Many consumers, in many processes, may consume from one queue.
//
// RabbitMQ takes back a message that is not acknowledged within its consumer_timeout (30 minutes unless configured
// otherwise), and closes the channel. Keep the Guard's Policy.Timeout below it.
func NewConsumer(dial DialFunc, queue string, c *queuesafe.Consumer, h queuesafe.Handler, o Options) *Consumer {
	o = o.withDefaults(queue)
	return &Consumer{
		dial: dial, consumer: c, handler: h, options: o,
		queues:    newQueues(queue, o),
		publisher: &publisher{dial: dial},
		slots:     make(chan struct{}, o.Parallel),
	}
}

// After an error the consumer pauses for firstPause before it reconnects; pauses double up to maxPause.
const firstPause, maxPause = 200 * time.Millisecond, 10 * time.Second

// Run consumes until ctx ends. Then it takes no more messages, returns prefetched ones to the queue, waits for the
// running handlers, settles their messages and returns nil. After a lost connection it reconnects.
//
// It returns an error only if the server refuses the first connection or declaration: wrong credentials, or a queue
// that exists with other arguments. Do not call Run again before it has returned.
func (c *Consumer) Run(ctx context.Context) error {
	defer c.publisher.close()
	defer c.running.Wait()
	connected := false
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
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
			_ = retry.Wait(ctx, pause/2+rand.N(pause/2)) // the loop checks ctx
		}
	}
	return nil
}

func (c *Consumer) tell(ctx context.Context, kind queuesafe.EventKind, err error) {
	c.consumer.Tell(ctx, queuesafe.Event{Kind: kind, Source: c.queues.main, Err: err})
}
