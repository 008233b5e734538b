package sqssafe

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/retrysafe/retrysafe/internal/retry"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Consumer consumes from one queue.
type Consumer struct {
	client   *sqs.Client
	queue    string
	fifo     bool
	consumer *queuesafe.Consumer
	handler  queuesafe.Handler
	options  Options
	slots    chan struct{} // one for each message that is being handled, or that waits for one of its group
	running  sync.WaitGroup
	deletes  *deleter
}

// Options of a Consumer. Set DeadLetters or DropDead, unless the queue has a redrive policy.
type Options struct {
	// Parallel is how many messages are handled at once. Default 16.
	Parallel int
	// Visibility is how long a message stays invisible after its consumer has crashed. It is rounded up to whole
	// seconds; at most 12 h. Default 30 s.
	Visibility time.Duration
	// DeadLetters is the URL of the queue for messages that are given up. It must be FIFO if this queue is. Default:
	// such messages are left to the queue's redrive policy.
	DeadLetters string
	// DropDead removes messages that are given up, without a dead letter.
	DropDead bool
	// DeduplicationID uses the MessageDeduplicationId as the ID of messages of a FIFO queue. Do not set it with
	// content-based deduplication, where two messages with the same body have the same MessageDeduplicationId.
	DeduplicationID bool
}

const maxVisibility = 12 * time.Hour

func (o Options) withDefaults() Options {
	o.Parallel = max(cmp.Or(o.Parallel, 16), 1)
	o.Visibility = min(max(cmp.Or(o.Visibility, 30*time.Second), time.Second), maxVisibility)
	return o
}

// NewConsumer returns a Consumer of the queue at a URL. Many consumers, in many processes, may consume from one queue.
// The client retries requests as it is configured.
func NewConsumer(client *sqs.Client, queueURL string, c *queuesafe.Consumer, h queuesafe.Handler, o Options) *Consumer {
	o = o.withDefaults()
	return &Consumer{
		client: client, queue: queueURL, fifo: isFIFO(queueURL), consumer: c, handler: h, options: o,
		slots:   make(chan struct{}, o.Parallel),
		deletes: &deleter{client: client, queue: queueURL},
	}
}

func isFIFO(queueURL string) bool { return strings.HasSuffix(queueURL, ".fifo") }

const (
	// After an error of SQS the consumer pauses for firstPause; pauses double up to maxPause.
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second
	longPoll   = 20 // seconds: the longest that SQS offers
	maxBatch   = 10
	// callTimeout limits the calls to SQS about one message.
	callTimeout = 30 * time.Second
)

// ErrNoDeadLetters is returned by Run if neither DeadLetters nor DropDead is set and the queue has no redrive policy.
var ErrNoDeadLetters = errors.New("sqssafe: the queue has no redrive policy: set DeadLetters or DropDead")

// Run consumes until ctx ends. Then it receives no more messages, waits for the running handlers, settles their
// messages and returns nil. A message that SQS sends at that moment is delivered again after Options.Visibility.
//
// It returns an error only at the start: ErrNoDeadLetters, or SQS's error if the queue does not exist or access is
// denied. Do not call Run again before it has returned.
func (c *Consumer) Run(ctx context.Context) error {
	defer c.running.Wait()
	connected := false
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		err := c.check(ctx)
		if err == nil {
			connected, pause = true, firstPause
			c.tell(ctx, queuesafe.Connected, 0, nil)
			err = c.receive(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case refused(err) && !connected:
			return err
		}
		c.tell(ctx, queuesafe.Disconnected, 0, err)
		_ = retry.Wait(ctx, pause/2+rand.N(pause/2)) // the loop checks ctx
	}
	return nil
}

// check returns an error if the queue cannot be consumed from.
func (c *Consumer) check(ctx context.Context) error {
	out, err := c.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &c.queue, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameRedrivePolicy},
	})
	switch {
	case err != nil:
		return err
	case c.options.DeadLetters == "" && !c.options.DropDead && out.Attributes["RedrivePolicy"] == "":
		return ErrNoDeadLetters
	}
	return nil
}

// refused reports whether SQS has refused a request, so that a retry will not help.
func refused(err error) bool {
	var no smithy.APIError
	if errors.Is(err, ErrNoDeadLetters) {
		return true
	}
	return errors.As(err, &no) && no.ErrorFault() == smithy.FaultClient && !strings.Contains(no.ErrorCode(), "Throttl")
}

// receive starts handlers for messages until ctx ends or SQS returns an error.
func (c *Consumer) receive(ctx context.Context) error {
	for {
		free := c.take(ctx)
		if free == 0 {
			return ctx.Err()
		}
		out, err := c.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &c.queue, MaxNumberOfMessages: int32(free), WaitTimeSeconds: longPoll,
			VisibilityTimeout:           seconds(c.options.Visibility),
			MessageAttributeNames:       []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			c.free(free)
			return err
		}
		c.free(free - len(out.Messages))
		c.start(ctx, out.Messages)
	}
}

// take waits for a free slot and takes all free slots, at most as many as one request may receive. It returns 0 if ctx
// ends before.
func (c *Consumer) take(ctx context.Context) (n int) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n = 1; n < maxBatch; n++ {
		select {
		case c.slots <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

func (c *Consumer) free(n int) {
	for range n {
		<-c.slots
	}
}

func (c *Consumer) tell(ctx context.Context, kind queuesafe.EventKind, delivery int, err error) {
	c.consumer.Tell(ctx, queuesafe.Event{Kind: kind, Source: c.queue, Delivery: delivery, Err: err})
}

// seconds rounds up, so that a message is not delivered too early.
func seconds(d time.Duration) int32 {
	return int32(min((max(d, 0)+time.Second-1)/time.Second, maxVisibility/time.Second))
}
