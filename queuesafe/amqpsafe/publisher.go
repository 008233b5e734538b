package amqpsafe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publishHeader tells which message the server has returned: it says so by sending it back.
const publishHeader = "x-retrysafe-publish"

// maxUnconfirmed bounds what is under way on one connection.
const maxUnconfirmed = 256

var (
	errRefused    = errors.New("amqpsafe: the server has not taken the message")
	errUnroutable = errors.New("amqpsafe: no queue takes the message")
)

// publisher publishes with confirmations, on a connection of its own that it makes when it needs one: RabbitMQ stops reading
// from connections that publish when it is short of memory, and acknowledgements must go on.
type publisher struct {
	dial DialFunc
	mu   sync.Mutex
	link *link // nil: none yet
}

// link is one connection of a publisher.
type link struct {
	conn    *amqp.Connection
	channel *amqp.Channel
	returns chan amqp.Return
	places  chan struct{}
	last    atomic.Int64

	mu       sync.Mutex
	returned map[int64]bool
}

// publish returns nil once the server has the message in a queue for good. On any error it may have it nevertheless.
func (p *publisher) publish(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	l, err := p.open(ctx)
	if err != nil {
		return err
	}
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.publish(ctx, exchange, key, m)
}

func (p *publisher) open(ctx context.Context) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != nil && !p.link.channel.IsClosed() {
		return p.link, nil
	}
	p.closeLink()
	conn, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	channel, err := conn.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p.link = &link{
		conn: conn, channel: channel,
		// Room for all that can be under way: the connection's reader must never wait for who waits for it.
		returns:  channel.NotifyReturn(make(chan amqp.Return, maxUnconfirmed)),
		places:   make(chan struct{}, maxUnconfirmed),
		returned: map[int64]bool{},
	}
	return p.link, nil
}

func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLink()
}

// closeLink frees a connection that serves no more. It may have been lost.
func (p *publisher) closeLink() {
	if p.link != nil {
		_ = p.link.conn.Close()
		p.link = nil
	}
}

func (l *link) publish(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	id := l.last.Add(1)
	m.Headers = maps.Clone(m.Headers)
	if m.Headers == nil {
		m.Headers = amqp.Table{}
	}
	m.Headers[publishHeader] = id
	m.DeliveryMode = amqp.Persistent
	confirmed, err := l.channel.PublishWithDeferredConfirm(exchange, key, true, false, m)
	if err != nil {
		<-l.places
		return err
	}
	select {
	case <-confirmed.Done():
		return l.answer(confirmed, id)
	case <-ctx.Done():
		go func() { // the place is free when the answer has come or the connection has gone
			<-confirmed.Done()
			_ = l.answer(confirmed, id)
		}()
		return ctx.Err()
	}
}

// answer reads what became of a message that has been confirmed or never will be. The server confirms what it returns too, and
// returns it first.
func (l *link) answer(confirmed *amqp.DeferredConfirmation, id int64) error {
	defer func() { <-l.places }()
	unroutable := l.wasReturned(id)
	switch {
	case !confirmed.Acked() && l.channel.IsClosed():
		return fmt.Errorf("%w: %w", errRefused, amqp.ErrClosed)
	case !confirmed.Acked():
		return errRefused
	case unroutable:
		return errUnroutable
	}
	return nil
}

func (l *link) wasReturned(id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		select {
		case r, open := <-l.returns:
			if n, ok := r.Headers[publishHeader].(int64); ok {
				l.returned[n] = true
			}
			if open {
				continue
			}
		default:
		}
		was := l.returned[id]
		delete(l.returned, id)
		return was
	}
}
