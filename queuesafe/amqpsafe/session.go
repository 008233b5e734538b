package amqpsafe

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// session is a Consumer's use of one connection. Its messages can be settled only on that connection.
type session struct {
	*Consumer
	conn       *amqp.Connection
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
	closed     chan *amqp.Error // the channel's
	ended      chan struct{}    // closed when the connection is lost
	handlers   sync.WaitGroup   // of this session's messages
}

func (c *Consumer) connect(ctx context.Context) (*session, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{Consumer: c, conn: conn, ended: make(chan struct{})}
	if err := s.open(); err != nil {
		_ = conn.Close() // the first error says more
		return nil, err
	}
	return s, nil
}

const consumerTag = "retrysafe"

func (s *session) open() (err error) {
	if s.channel, err = s.conn.Channel(); err != nil {
		return err
	}
	s.closed = s.channel.NotifyClose(make(chan *amqp.Error, 1))
	if err := s.queues.declare(s.channel); err != nil {
		return err
	}
	if err := s.channel.Qos(s.options.Prefetch, 0, false); err != nil {
		return err
	}
	s.deliveries, err = s.channel.Consume(s.queues.main, consumerTag, false, false, false, false, nil)
	return err
}

// run starts handlers until ctx ends or the connection is lost. If ctx ends, it waits for the handlers.
func (s *session) run(ctx context.Context) error {
	defer func() { _ = s.conn.Close() }() // it may be lost
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case s.slots <- struct{}{}:
		case err := <-s.closed:
			return s.lost(err)
		}
		select {
		case d, ok := <-s.deliveries:
			if !ok {
				<-s.slots
				return s.lost(nil)
			}
			s.start(ctx, d)
		case <-ctx.Done():
			<-s.slots
		}
	}
	return s.finish()
}

// start handles a message in a new goroutine. The caller has taken a slot.
func (s *session) start(ctx context.Context, d amqp.Delivery) {
	s.handlers.Add(1)
	s.running.Go(func() {
		defer func() { <-s.slots }()
		defer s.handlers.Done()
		s.handle(ctx, &d)
	})
}

// finish takes no more messages, returns prefetched ones to the queue, and then waits for the handlers, which may take
// long.
func (s *session) finish() error {
	err := s.channel.Cancel(consumerTag, false)
	for d := range s.deliveries {
		err = errors.Join(err, d.Nack(false, true))
	}
	s.handlers.Wait()
	return err
}

var errCanceled = errors.New("amqpsafe: the server has canceled the consumer; was the queue deleted?")

// lost ends a session whose connection is lost. RabbitMQ delivers its messages again. Running handlers go on until
// their keys have ended, which the next delivery will find.
func (s *session) lost(err *amqp.Error) error {
	close(s.ended)
	if err == nil {
		select {
		case err = <-s.closed:
		default:
		}
	}
	if err == nil {
		return errCanceled
	}
	return err
}

// settleTimeout limits the calls to the server about one message.
const settleTimeout = 30 * time.Second

// handle handles and settles a message.
func (s *session) handle(ctx context.Context, d *amqp.Delivery) {
	m := messageOf(s.queues.main, d)
	disposition := s.consumer.Handle(ctx, m, s.handler)
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := s.settle(call, d, disposition); err != nil {
		s.consumer.Tell(ctx, queuesafe.Event{Kind: queuesafe.SettleFailed, Source: m.Source, Delivery: m.Delivery, Err: err})
	}
}

// settle tells the server what happens to a message. If publishing a copy to a retry queue or to the dead letters
// fails, the message returns to its queue.
func (s *session) settle(ctx context.Context, d *amqp.Delivery, disposition queuesafe.Disposition) error {
	var err error
	switch {
	case disposition.Action == queuesafe.Later && disposition.Delay <= 0:
		return d.Nack(false, true)
	case disposition.Action == queuesafe.Later:
		err = s.publisher.publish(ctx, "", s.queues.retry(disposition.Delay), copyOf(d))
	case disposition.Action == queuesafe.Dead && s.queues.dead != "":
		err = s.publisher.publish(ctx, "", s.queues.dead, s.deadLetter(d, disposition))
	}
	if errors.Is(err, errUnroutable) { // the queue was deleted
		err = errors.Join(err, s.redeclare())
	}
	if err != nil {
		s.pause(ctx)
		return errors.Join(err, d.Nack(false, true))
	}
	return d.Ack(false)
}

// redeclare creates missing queues. It uses its own channel, because an error would close the channel.
func (s *session) redeclare() error {
	c, err := s.conn.Channel()
	if err != nil {
		return err
	}
	return errors.Join(s.queues.declare(c), c.Close())
}

func (s *session) deadLetter(d *amqp.Delivery, disposition queuesafe.Disposition) amqp.Publishing {
	m := copyOf(d)
	m.Headers[ReasonHeader] = disposition.Situation.String()
	m.Headers[QueueHeader] = s.queues.main
	return m
}

// pause delays a message whose copy cannot be published, so that it is not redelivered in a tight loop.
func (s *session) pause(ctx context.Context) {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ended:
	case <-ctx.Done():
	}
}
