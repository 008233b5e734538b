package amqpsafe

import (
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

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
		if err := declareQueue(c, q.dead, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}); err != nil {
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
