package amqpsafe

import (
	"fmt"
	"math"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// QueueArguments returns the arguments with which a Consumer declares its queue, unless Options.QueueArguments is set,
// and the queue for dead letters. If you declare these queues elsewhere, use the same arguments. They make quorum
// queues that never give a message up by themselves: since version 4, RabbitMQ removes a message that was returned to
// its queue twenty times, without a dead letter, even if it was only prefetched by consumers that crashed because of
// other messages.
func QueueArguments() amqp.Table {
	return amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum, "x-delivery-limit": int64(math.MaxInt32)}
}

// queues are the queues that a Consumer declares.
type queues struct {
	main, dead string
	args       amqp.Table
	delays     []time.Duration // ascending
	topology   func(*amqp.Channel) error
}

func newQueues(queue string, o Options) queues {
	q := queues{
		main: queue, dead: o.DeadLetters, args: o.QueueArguments, delays: slices.Clone(o.Delays),
		topology: o.Topology,
	}
	slices.Sort(q.delays)
	return q
}

// retry returns the queue with the shortest delay that is at least d, or the one with the longest delay if there is
// none.
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

// declare creates missing queues. Existing ones must have the same arguments.
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
			amqp.QueueOverflowArg:       amqp.QueueOverflowRejectPublish, // required by that strategy
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
