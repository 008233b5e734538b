package sqssafe

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// extendsPerVisibility is how often a message's visibility is made longer within its length.
const extendsPerVisibility = 3

// start handles messages that have come together; there is a place for each. Those of one group go one after the other.
func (c *Consumer) start(ctx context.Context, batch []types.Message) {
	received := time.Now()
	var lanes [][]types.Message
	lane := map[string]int{}
	for _, m := range batch {
		group := m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
		i, known := lane[group]
		if !c.fifo || !known {
			lane[group] = len(lanes)
			lanes = append(lanes, []types.Message{m})
			continue
		}
		lanes[i] = append(lanes[i], m)
	}
	for _, messages := range lanes {
		c.running.Go(func() { c.inOrder(ctx, messages, received) })
	}
}

// inOrder handles the messages of one lane. Once one is to come again, or if the next one may be somebody else's already, the rest
// is given back: SQS keeps a group's order over what is not deleted.
func (c *Consumer) inOrder(ctx context.Context, messages []types.Message, received time.Time) {
	for i, m := range messages {
		if i > 0 && (ctx.Err() != nil || time.Since(received) > c.options.Visibility/2) {
			c.giveBack(ctx, messages[i:])
			return
		}
		gone := c.handle(ctx, m)
		c.free(1)
		if !gone {
			c.giveBack(ctx, messages[i+1:])
			return
		}
	}
}

func (c *Consumer) giveBack(ctx context.Context, messages []types.Message) {
	for _, m := range messages {
		c.say(ctx, m, func(ctx context.Context) error { return c.visible(ctx, m, 0) })
		c.free(1)
	}
}

// handle has a message handled and settled. It reports whether it is gone from the queue.
func (c *Consumer) handle(ctx context.Context, received types.Message) (gone bool) {
	m := c.messageOf(received)
	m.ExtendEvery = c.options.Visibility / extendsPerVisibility
	m.Extend = func(ctx context.Context) error { return c.visible(ctx, received, c.options.Visibility) }
	d := c.consumer.Handle(ctx, m, c.handler)
	return c.say(ctx, received, func(ctx context.Context) (err error) {
		gone, err = c.settle(ctx, received, d)
		return err
	}) && gone
}

// say tells SQS something about a message, also when the consumer is being stopped.
func (c *Consumer) say(ctx context.Context, m types.Message, what func(context.Context) error) (said bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	err := what(ctx)
	if err != nil {
		c.tell(ctx, queuesafe.SettleFailed, deliveries(m), err)
	}
	return err == nil
}

// settle tells SQS what becomes of a message. One that cannot be sent to the dead letters comes again.
func (c *Consumer) settle(ctx context.Context, m types.Message, d queuesafe.Disposition) (gone bool, err error) {
	switch {
	case d.Action == queuesafe.Later:
		return false, c.visible(ctx, m, d.Delay)
	case d.Action == queuesafe.Dead && c.options.DeadLetters != "":
		if err := c.bury(ctx, m, d); err != nil {
			return false, errors.Join(err, c.visible(ctx, m, time.Second))
		}
	case d.Action == queuesafe.Dead && !c.options.DropDead: // the redrive policy moves it, once it has come often enough
		return false, c.visible(ctx, m, 0)
	}
	return true, c.deletes.delete(ctx, *m.ReceiptHandle)
}

// bury sends a dead letter, without a reason if SQS refuses it with one: the message may be as large as any can be.
func (c *Consumer) bury(ctx context.Context, m types.Message, d queuesafe.Disposition) error {
	in := c.deadLetter(m, d)
	_, err := c.client.SendMessage(ctx, in)
	if refused(err) {
		in.MessageAttributes = m.MessageAttributes
		_, err = c.client.SendMessage(ctx, in)
	}
	return err
}

// visible lets a message be invisible for d from now.
func (c *Consumer) visible(ctx context.Context, m types.Message, d time.Duration) error {
	_, err := c.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &c.queue, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds(d),
	})
	return err
}
