package natssafe

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Sink sends the outbox's messages to JetStream: it is an outbox.Sink. A message counts as sent once a stream has acknowledged
// it.
type Sink struct {
	js      jetstream.JetStream
	options SinkOptions
}

// SinkOptions may be left empty.
type SinkOptions struct {
	// Subject of a message. Default: its Topic.
	Subject func(m outbox.Message) string
	// Stream that must acknowledge, so that a message is not taken for sent which another stream has caught. Default: any.
	Stream string
	// Parallel is how many messages are under way at once. Default 256.
	Parallel int
}

// NewSink returns a Sink on a connection that is the caller's.
func NewSink(js jetstream.JetStream, o SinkOptions) *Sink {
	if o.Subject == nil {
		o.Subject = func(m outbox.Message) string { return m.Topic }
	}
	if o.Parallel <= 0 {
		o.Parallel = 256
	}
	return &Sink{js: js, options: o}
}

var _ outbox.Sink = (*Sink)(nil)

// Send publishes the batch with the keys as Nats-Msg-Id, by which the stream drops copies within its window for duplicates (two
// minutes by default), and in the header Idempotency-Key, by which receivers drop them ever after. A message that no stream
// takes has not been sent: it is tried again. One that is too large, or whose subject or a header's name is not valid, is not.
func (s *Sink) Send(ctx context.Context, batch []outbox.Delivery) []error {
	var options []jetstream.PublishOpt
	if s.options.Stream != "" {
		options = append(options, jetstream.WithExpectStream(s.options.Stream))
	}
	return outbox.Each(s.options.Parallel, func(ctx context.Context, d outbox.Delivery) error {
		_, err := s.js.PublishMsg(ctx, s.message(d.Message), options...)
		return classify(err)
	}).Send(ctx, batch)
}

func classify(err error) error {
	for _, no := range []error{nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrBadHeaderMsg, jetstream.ErrStreamMessageExceedsMaximum} {
		if errors.Is(err, no) {
			return outbox.Permanent(err)
		}
	}
	return err
}

func (s *Sink) message(m outbox.Message) *nats.Msg {
	msg := nats.NewMsg(s.options.Subject(m))
	for name, value := range queuesafe.WithKey(m.Header, m.Key) {
		msg.Header.Set(name, value)
	}
	msg.Header.Set(nats.MsgIdHdr, m.Key)
	msg.Data = m.Body
	return msg
}
