package sqssafe

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// extendsPerVisibility is how often the visibility of a message is extended before it would end.
const extendsPerVisibility = 3

// start handles messages that were received together. The caller has taken a slot for each. Messages of one group are
// handled one after the other.
func (c *Consumer) start(ctx context.Context, batch []types.Message) {
	received := time.Now()
	groups := map[string][]types.Message{}
	for i, m := range batch {
		group := strconv.Itoa(i)
		if c.fifo {
			group = m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
		}
		groups[group] = append(groups[group], m)
	}
	for _, messages := range groups {
		c.running.Go(func() { c.inOrder(ctx, messages, received) })
	}
}

// inOrder handles the messages of a group. It returns the remaining ones to the queue when one is to be delivered
// again, or when their visibility may have ended. SQS keeps the order of a group's messages that are not deleted.
func (c *Consumer) inOrder(ctx context.Context, messages []types.Message, received time.Time) {
	for i, m := range messages {
		if i > 0 && (ctx.Err() != nil || time.Since(received) > c.options.Visibility/2) {
			c.requeue(ctx, messages[i:])
			return
		}
		deleted := c.handle(ctx, m)
		c.free(1)
		if !deleted {
			c.requeue(ctx, messages[i+1:])
			return
		}
	}
}

// requeue makes messages visible again and frees their slots.
func (c *Consumer) requeue(ctx context.Context, messages []types.Message) {
	for _, m := range messages {
		c.call(ctx, m, func(ctx context.Context) error { return c.hide(ctx, m, 0) })
		c.free(1)
	}
}

// handle handles and settles a message. It reports whether the message was deleted from the queue.
func (c *Consumer) handle(ctx context.Context, received types.Message) (deleted bool) {
	m := c.messageOf(received)
	m.ExtendEvery = c.options.Visibility / extendsPerVisibility
	m.Extend = func(ctx context.Context) error { return c.hide(ctx, received, c.options.Visibility) }
	d := c.consumer.Handle(ctx, m, c.handler)
	return c.call(ctx, received, func(ctx context.Context) (err error) {
		deleted, err = c.settle(ctx, received, d)
		return err
	}) && deleted
}

// call calls SQS about a message, also while the consumer is stopping. It reports an error to the Observer and returns
// false.
func (c *Consumer) call(ctx context.Context, m types.Message, request func(context.Context) error) (ok bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	err := request(ctx)
	if err != nil {
		c.tell(ctx, queuesafe.SettleFailed, deliveries(m), err)
	}
	return err == nil
}

// settle tells SQS what happens to a message. If sending it to the dead letters fails, it is delivered again.
func (c *Consumer) settle(ctx context.Context, m types.Message, d queuesafe.Disposition) (deleted bool, err error) {
	switch {
	case d.Action == queuesafe.Later:
		return false, c.hide(ctx, m, d.Delay)
	case d.Action == queuesafe.Dead && c.options.DeadLetters != "":
		if err := c.bury(ctx, m, d); err != nil {
			return false, errors.Join(err, c.hide(ctx, m, time.Second))
		}
	case d.Action == queuesafe.Dead && !c.options.DropDead: // the redrive policy moves it after maxReceiveCount deliveries
		return false, c.hide(ctx, m, 0)
	}
	return true, c.deletes.delete(ctx, *m.ReceiptHandle)
}

// bury sends a dead letter. If SQS refuses it with the attributes that were added, because it is too large, bury sends
// it without them.
func (c *Consumer) bury(ctx context.Context, m types.Message, d queuesafe.Disposition) error {
	in := c.deadLetter(m, d)
	_, err := c.client.SendMessage(ctx, in)
	if refused(err) {
		in.MessageAttributes = m.MessageAttributes
		_, err = c.client.SendMessage(ctx, in)
	}
	return err
}

// hide makes a message invisible for d from now.
func (c *Consumer) hide(ctx context.Context, m types.Message, d time.Duration) error {
	_, err := c.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &c.queue, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds(d),
	})
	return err
}
