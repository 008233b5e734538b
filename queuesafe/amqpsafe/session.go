package amqpsafe

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// session is what a Consumer has with one connection. Messages that came with it can be settled only on it.
type session struct {
	*Consumer
	conn       *amqp.Connection
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
	closed     chan *amqp.Error // the channel's
	gone       chan struct{}    // closed when the connection serves no more
	mine       sync.WaitGroup   // handlers of messages that came with it
}

func (c *Consumer) connect(ctx context.Context) (*session, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{Consumer: c, conn: conn, gone: make(chan struct{})}
	if err := s.open(); err != nil {
		_ = conn.Close() // the error that led here says more
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

// run hands messages to handlers until ctx ends or the connection does. In the first case it returns once they have ended.
func (s *session) run(ctx context.Context) error {
	defer func() { _ = s.conn.Close() }() // it may be lost
	for {
		select {
		case <-ctx.Done():
			return s.finish()
		case s.places <- struct{}{}:
		case err := <-s.closed:
			return s.lost(err)
		}
		select {
		case d, ok := <-s.deliveries:
			if !ok {
				<-s.places
				return s.lost(nil)
			}
			s.start(ctx, d)
		case <-ctx.Done():
			<-s.places
			return s.finish()
		}
	}
}

// start handles a message; the place for it has been taken.
func (s *session) start(ctx context.Context, d amqp.Delivery) {
	s.mine.Add(1)
	s.running.Go(func() {
		defer func() { <-s.places }()
		defer s.mine.Done()
		s.handle(ctx, &d)
	})
}

// finish takes no more messages, gives back at once those that were sent ahead, since handlers may run for long, and waits for these.
func (s *session) finish() error {
	err := s.channel.Cancel(consumerTag, false)
	for d := range s.deliveries {
		err = errors.Join(err, d.Nack(false, true))
	}
	s.mine.Wait()
	return err
}

var errCanceled = errors.New("amqpsafe: the server has ended the consumer; has the queue been deleted?")

// lost ends a session whose messages go to others. Handlers that run go on: their keys will end, and the next delivery finds out.
func (s *session) lost(err *amqp.Error) error {
	close(s.gone)
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

// settleTimeout bounds what is said to the server about one message.
const settleTimeout = 30 * time.Second

// handle has a message handled and settled.
func (s *session) handle(ctx context.Context, d *amqp.Delivery) {
	m := messageOf(s.queues.main, d)
	disposition := s.consumer.Handle(ctx, m, s.handler)
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := s.settle(call, d, disposition); err != nil {
		s.consumer.Tell(ctx, queuesafe.Event{Kind: queuesafe.SettleFailed, Source: m.Source, Delivery: m.Delivery, Err: err})
	}
}

// settle tells the server what becomes of a message. If the copy of one that is to go elsewhere cannot be published, the
// message goes back to the queue.
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
	if errors.Is(err, errUnroutable) { // somebody has deleted the queue
		err = errors.Join(err, s.redeclare())
	}
	if err != nil {
		s.pause(ctx)
		return errors.Join(err, d.Nack(false, true))
	}
	return d.Ack(false)
}

// redeclare makes queues that are missing, on a channel of its own, which an error would close.
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

// pause keeps a message that cannot be sent on from going around at full speed.
func (s *session) pause(ctx context.Context) {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.gone:
	case <-ctx.Done():
	}
}
