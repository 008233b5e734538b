package natssafe

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Sink is an outbox.Sink that sends to JetStream. A message counts as sent when a stream has acknowledged it.
type Sink struct {
	js      jetstream.JetStream
	options SinkOptions
}

// SinkOptions of a Sink. SinkOptions{} works.
type SinkOptions struct {
	// Subject returns the subject of a message. Default: its Topic.
	Subject func(m outbox.Message) string
	// Stream is the stream that must acknowledge a message; a message that another stream has stored counts as not
	// sent. Default: any stream.
	Stream string
	// Parallel is how many messages are sent at once. Default 256.
	Parallel int
}

// NewSink returns a Sink. The caller owns the connection.
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

// Send publishes the batch. A message's key is its Nats-Msg-Id, by which the stream drops copies within its window for
// duplicates (two minutes by default), and its header Idempotency-Key, by which receivers recognise later copies.
//
// A message that no stream accepts is not sent and will be retried. Errors are permanent for messages that are too
// large, or whose subject or header names are invalid, and for headers whose names begin with "Nats-": the server takes
// them for instructions, such as Nats-Rollup, which deletes the earlier messages.
func (s *Sink) Send(ctx context.Context, batch []outbox.Delivery) []error {
	var options []jetstream.PublishOpt
	if s.options.Stream != "" {
		options = append(options, jetstream.WithExpectStream(s.options.Stream))
	}
	return outbox.Each(s.options.Parallel, func(ctx context.Context, d outbox.Delivery) error {
		for name := range d.Header {
			if isInstruction(name) {
				return outbox.Permanent(fmt.Errorf("natssafe: the header %q would be an instruction to the server", name))
			}
		}
		_, err := s.js.PublishMsg(ctx, s.message(d.Message), options...)
		return classify(err)
	}).Send(ctx, batch)
}

func classify(err error) error {
	for _, no := range []error{
		nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrBadHeaderMsg,
		jetstream.ErrStreamMessageExceedsMaximum,
	} {
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
