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
	// Publisher of the messages that handlers return. They are published before the key ends, to the topic that the router would
	// take. Each has for its UUID a child key of the attempt, so that one that is published again, by a second attempt, has the same. A
	// copy of the message that came does not keep its metadata Idempotency-Key; one that the handler has set counts.
	// Default: a handler that returns messages is an error, ErrPublishes, and does not run.
	Publisher message.Publisher
	// Delivery says how often a message has been delivered, if the subscriber knows; 0: it does not. Default: it does not. Then
	// queuesafe.Options.MaxDeliveries is no limit.
	Delivery func(m *message.Message) int
}

// ErrPublishes is what the middleware returns for a handler that has a topic to publish to, if there is no Options.Publisher.
var ErrPublishes = errors.New("watermillsafe: a handler that publishes needs Options.Publisher")

// Error is what the middleware returns for a message that is not to be acknowledged.
type Error struct {
	Disposition queuesafe.Disposition
}

func (e *Error) Error() string {
	return fmt.Sprintf("watermillsafe: %v, %v: %v", e.Disposition.Situation, e.Disposition.Action, e.Disposition.Err)
}

// Unwrap returns Disposition.Err.
func (e *Error) Unwrap() error { return e.Disposition.Err }

// IsDead reports whether err is the middleware's word that a message is given up: a filter for Watermill's PoisonQueueWithFilter.
func IsDead(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Disposition.Action == queuesafe.Dead
}

// Middleware returns a middleware for a router or for one of its handlers. Put middlewares that try again by themselves outside of it,
// and those that are to see each run of the handler inside.
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
	d := c.Handle(ctx, o.messageOf(m), func(ctx context.Context, came queuesafe.Message) error {
		m.SetContext(ctx)
		produced, err := next(m)
		if err != nil {
			return err
		}
		return o.publish(ctx, topic, produced, came.Header.Values(queuesafe.KeyHeader))
	})
	if d.Action == queuesafe.Ack {
		return nil
	}
	if d.Action == queuesafe.Later {
		_ = retry.Wait(ctx, max(d.Delay, minDelay)) // the message is refused either way
	}
	return &Error{Disposition: d}
}

// minDelay keeps a message that comes again at once from going around at full speed.
const minDelay = 10 * time.Millisecond

// messageOf is the message as the Consumer sees it.
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

// publish publishes what a handler has returned. An error may come after some of it: whether it is done again is for the policy to
// say, and the UUIDs make it harmless.
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
		m = m.Copy() // it may be the one that came
		if ok {
			m.UUID = a.ChildKey(fmt.Sprintf("publish %s %d", topic, i))
		}
		maps.DeleteFunc(m.Metadata, func(name, value string) bool { // for receivers, copies with one key are one message
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
