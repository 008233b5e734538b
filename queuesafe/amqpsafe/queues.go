package amqpsafe

import (
	"fmt"
	"math"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// QueueArguments are those of the queue that is consumed from, and of its dead letters, unless Options say otherwise: who declares one
// elsewhere has to do it likewise. They make it a quorum queue that never gives a message up by itself: from version 4 on RabbitMQ
// would remove one that has come back to the queue twenty times, without a dead letter, even if it only waited in the hands of
// consumers that crashed over others.
func QueueArguments() amqp.Table {
	return amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-delivery-limit": int64(math.MaxInt32)}
}

// queues names what a Consumer declares.
type queues struct {
	main, dead string
	args       amqp.Table
	delays     []time.Duration // ascending
	topology   func(*amqp.Channel) error
}

func newQueues(queue string, o Options) queues {
	q := queues{main: queue, dead: o.DeadLetters, args: o.QueueArguments, delays: slices.Clone(o.Delays), topology: o.Topology}
	slices.Sort(q.delays)
	return q
}

// retry is the queue for messages that are to come again after d, or a little later; the last one, if none is as slow.
func (q queues) retry(d time.Duration) string {
	i := slices.IndexFunc(q.delays, func(delay time.Duration) bool { return delay >= d })
	if i < 0 {
		i = len(q.delays) - 1
	}
	return q.retryName(q.delays[i])
}

func (q queues) retryName(delay time.Duration) string {
	return fmt.Sprintf("%s.retry.%v", q.main, delay)
}

// declare makes what is missing. What is there must be as it is declared.
func (q queues) declare(c *amqp.Channel) error {
	if err := declareQueue(c, q.main, q.args); err != nil {
		return err
	}
	for _, delay := range q.delays {
		err := declareQueue(c, q.retryName(delay), amqp.Table{
			amqp.QueueTypeArg:           amqp.QueueTypeQuorum,
			amqp.QueueMessageTTLArg:     delay.Milliseconds(),
			"x-dead-letter-exchange":    "",
			"x-dead-letter-routing-key": q.main,
			"x-dead-letter-strategy":    "at-least-once",
			amqp.QueueOverflowArg:       amqp.QueueOverflowRejectPublish, // what that strategy asks for
		})
		if err != nil {
			return err
		}
	}
	if q.dead != "" {
		if err := declareQueue(c, q.dead, QueueArguments()); err != nil {
			return err
		}
	}
	if q.topology == nil {
		return nil
	}
	return q.topology(c)
}

func declareQueue(c *amqp.Channel, name string, args amqp.Table) error {
	if _, err := c.QueueDeclare(name, true, false, false, false, args); err != nil {
		return fmt.Errorf("amqpsafe: declare the queue %s: %w", name, err)
	}
	return nil
}
