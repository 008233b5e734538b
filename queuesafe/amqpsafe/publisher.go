package amqpsafe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publishHeader tells which message the server has returned: it says so by sending it back.
const publishHeader = "x-retrysafe-publish"

const (
	// maxUnconfirmed bounds what is under way on one connection.
	maxUnconfirmed = 256
	// closeTimeout bounds the farewell to a server that may not be reading.
	closeTimeout = 5 * time.Second
)

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
	closed  chan *amqp.Error // why the channel was
	places  chan struct{}
	last    atomic.Int64

	mu       sync.Mutex
	returned map[int64]bool
	reason   *amqp.Error
}

// publish returns nil once the server has the message in a queue for good. On any error it may have it nevertheless. It ends with
// ctx, although a server that is short of memory reads nothing for as long as that lasts, and connecting takes its time.
func (p *publisher) publish(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	answer := make(chan error, 1)
	go func() { answer <- p.begin(ctx, exchange, key, m) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin publishes unless ctx has ended before.
func (p *publisher) begin(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	l, err := p.open(ctx)
	if err != nil {
		return err
	}
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.places }()
	if ctx.Err() != nil { // both were so, and chance has chosen
		return ctx.Err()
	}
	return l.publish(exchange, key, m)
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
		closed:   channel.NotifyClose(make(chan *amqp.Error, 1)),
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
		_ = p.link.conn.CloseDeadline(time.Now().Add(closeTimeout))
		p.link = nil
	}
}

// publish returns once the server has answered, or never will. The place for it has been taken.
func (l *link) publish(exchange, key string, m amqp.Publishing) error {
	id := l.last.Add(1)
	m.Headers = maps.Clone(m.Headers)
	if m.Headers == nil {
		m.Headers = amqp.Table{}
	}
	m.Headers[publishHeader] = id
	m.DeliveryMode = amqp.Persistent
	confirmed, err := l.channel.PublishWithDeferredConfirm(exchange, key, true, false, m)
	if err != nil {
		return err
	}
	<-confirmed.Done()
	return l.answer(confirmed, id)
}

// answer reads what became of a message that has been confirmed or never will be. The server confirms what it returns too, and
// returns it first.
func (l *link) answer(confirmed *amqp.DeferredConfirmation, id int64) error {
	unroutable := l.wasReturned(id)
	switch {
	case !confirmed.Acked() && l.channel.IsClosed():
		return fmt.Errorf("%w: %w", errRefused, l.whyClosed())
	case !confirmed.Acked():
		return errRefused
	case unroutable:
		return errUnroutable
	}
	return nil
}

// whyClosed returns the server's reason for closing the channel to each who asks, if it gave one.
func (l *link) whyClosed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == nil {
		l.reason = amqp.ErrClosed
		if e, ok := <-l.closed; ok {
			l.reason = e
		}
	}
	return l.reason
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
