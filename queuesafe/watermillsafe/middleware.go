package watermillsafe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/retry"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Options of a Middleware. Options{} works.
type Options struct {
	// Publisher publishes the messages that handlers return, before the key ends, to the topic that the router would
	// publish to. Their UUIDs are child keys of the attempt, so that a message which a second attempt publishes again
	// has the same UUID. A copy of the received message loses its metadata Idempotency-Key; one that the handler has
	// set is kept. A store's InTx is refused in such handlers with ErrInTx: it would end the key first. Default: the
	// middleware returns ErrPublishes for handlers that have a topic to publish to, and does not run them.
	Publisher message.Publisher
	// Delivery returns the number of this delivery of a message, counted from 1, or 0 if the subscriber does not count.
	// Default: 0, with which queuesafe.Options.MaxDeliveries is not enforced.
	Delivery func(m *message.Message) int
}

// ErrPublishes is returned by the middleware for a handler that has a topic to publish to, if Options.Publisher is not
// set.
var ErrPublishes = errors.New("watermillsafe: a handler that publishes needs Options.Publisher")

// ErrInTx is returned by a store's InTx, which then is rolled back, in a handler that has a topic to publish to: the key
// would end with the transaction, and a failure or a crash before the messages are published would lose them.
var ErrInTx = errors.New("watermillsafe: a handler that publishes cannot use InTx: save the messages in an outbox in " +
	"the transaction, and make the handler one without a topic to publish to")

// Error is returned by the middleware for a message that must not be acknowledged.
type Error struct {
	Disposition queuesafe.Disposition
}

func (e *Error) Error() string {
	return fmt.Sprintf("watermillsafe: %v, %v: %v", e.Disposition.Situation, e.Disposition.Action, e.Disposition.Err)
}

// Unwrap returns Disposition.Err.
func (e *Error) Unwrap() error { return e.Disposition.Err }

// IsDead reports whether err is an *Error for a message that is given up. It is a filter for Watermill's
// PoisonQueueWithFilter.
func IsDead(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Disposition.Action == queuesafe.Dead
}

// Middleware returns a middleware for a router or for one of its handlers. Middlewares that retry by themselves must
// wrap it; middlewares that must see each run of the handler go inside it.
func Middleware(c *queuesafe.Consumer, o Options) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) {
			return nil, o.handle(c, m, next)
		}
	}
}

func (o Options) handle(c *queuesafe.Consumer, m *message.Message, next message.HandlerFunc) error {
	ctx := m.Context()
	defer m.SetContext(ctx)
	topic := message.PublishTopicFromCtx(ctx)
	if topic != "" && o.Publisher == nil {
		return ErrPublishes
	}
	d := c.Handle(ctx, o.messageOf(m), func(ctx context.Context, received queuesafe.Message) error {
		m.SetContext(ctx)
		if a, ok := retrysafe.AttemptFrom(ctx); ok && topic != "" {
			a.Control().Capture(func() (retrysafe.Result, error) { return retrysafe.Result{}, ErrInTx })
		}
		produced, err := next(m)
		if err != nil {
			return err
		}
		return o.publish(ctx, topic, produced, received.Header.Values(queuesafe.KeyHeader))
	})
	if d.Action == queuesafe.Ack {
		return nil
	}
	if d.Action == queuesafe.Later {
		_ = retry.Wait(ctx, max(d.Delay, minDelay)) // the message is not acknowledged in either case
	}
	return &Error{Disposition: d}
}

// minDelay prevents a tight loop with a message that is to be delivered again at once.
const minDelay = 10 * time.Millisecond

// messageOf returns the message as the Consumer sees it.
func (o Options) messageOf(m *message.Message) queuesafe.Message {
	h := make(queuesafe.Header, len(m.Metadata))
	for name, value := range m.Metadata {
		h[name] = []string{value}
	}
	seen := queuesafe.Message{
		ID: m.UUID, Source: message.SubscribeTopicFromCtx(m.Context()), Header: h, Body: m.Payload,
	}
	if o.Delivery != nil {
		seen.Delivery = o.Delivery(m)
	}
	return seen
}

// publish publishes the messages that a handler has returned. After an error some may be published: the policy for
// abandoned keys decides whether the handler runs again, and copies have the same UUIDs.
func (o Options) publish(ctx context.Context, topic string, produced []*message.Message, inherited []string) error {
	if len(produced) == 0 {
		return nil
	}
	if topic == "" {
		return message.ErrOutputInNoPublisherHandler
	}
	a, ok := retrysafe.AttemptFrom(ctx)
	sent := make([]*message.Message, len(produced))
	for i, m := range produced {
		m = m.Copy() // it may be the received message
		if ok {
			m.UUID = a.ChildKey(fmt.Sprintf("publish %s %d", topic, i))
		}
		// receivers would take it for a copy of the received message
		maps.DeleteFunc(m.Metadata, func(name, value string) bool {
			return strings.EqualFold(name, queuesafe.KeyHeader) && slices.Contains(inherited, value)
		})
		m.SetContext(ctx)
		sent[i] = m
	}
	if err := o.Publisher.Publish(topic, sent...); err != nil {
		return retrysafe.Unknown(fmt.Errorf("publish to %s: %w", topic, err))
	}
	return nil
}
