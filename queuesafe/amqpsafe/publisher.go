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

// publishHeader numbers the messages, so that one which the server returns can be recognised.
const publishHeader = "x-retrysafe-publish"

const (
	// maxUnconfirmed is how many unconfirmed messages one connection may have.
	maxUnconfirmed = 256
	// closeTimeout limits closing a connection whose server may not be reading.
	closeTimeout = 5 * time.Second
)

var (
	errRefused    = errors.New("amqpsafe: the server has not accepted the message")
	errUnroutable = errors.New("amqpsafe: no queue is bound for the message")
)

// publisher publishes with confirmations. It opens its own connection when it needs one: RabbitMQ stops reading from
// publishing connections when it is short of memory, and acknowledgements must still get through.
type publisher struct {
	dial DialFunc
	mu   sync.Mutex
	link *link // nil: not connected
}

// link is one connection of a publisher.
type link struct {
	conn    *amqp.Connection
	channel *amqp.Channel
	returns chan amqp.Return
	closed  chan *amqp.Error // why the channel was closed
	slots   chan struct{}    // one for each unconfirmed message
	last    atomic.Int64

	mu       sync.Mutex
	returned map[int64]bool
	reason   *amqp.Error
}

// publish returns nil when the server has confirmed that the message is stored in a queue. After an error the message
// may be stored too. publish returns when ctx ends, even while connecting, or while a server that is short of memory
// does not read.
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

// begin publishes a message unless ctx ends before a slot is free.
func (p *publisher) begin(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	l, err := p.open(ctx)
	if err != nil {
		return err
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.slots }()
	if ctx.Err() != nil { // select may choose the slot although ctx has ended
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
		// The buffer holds all unconfirmed messages: the connection's reader must not block on callers that wait for
		// the reader.
		returns:  channel.NotifyReturn(make(chan amqp.Return, maxUnconfirmed)),
		closed:   channel.NotifyClose(make(chan *amqp.Error, 1)),
		slots:    make(chan struct{}, maxUnconfirmed),
		returned: map[int64]bool{},
	}
	return p.link, nil
}

func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLink()
}

// closeLink closes the connection, which may be lost already.
func (p *publisher) closeLink() {
	if p.link != nil {
		_ = p.link.conn.CloseDeadline(time.Now().Add(closeTimeout))
		p.link = nil
	}
}

// publish returns when the server has confirmed or refused the message, or the channel is closed. The caller has taken
// a slot.
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

// answer returns the result for a message after its confirmation, or after the channel was closed. The server also
// confirms a message that it returns, and returns it first.
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

// whyClosed returns the server's reason for closing the channel; amqp.ErrClosed if it gave none. It may be called many
// times.
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
