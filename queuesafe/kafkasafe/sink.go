package kafkasafe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Sink is an outbox.Sink that sends to Kafka. A message counts as sent when all replicas in sync have it.
type Sink struct {
	client  *kgo.Client
	options SinkOptions
	alone   sync.RWMutex // locked to produce a single record, read-locked to produce many together
}

// SinkOptions of a Sink. SinkOptions{} works.
type SinkOptions struct {
	// Topic returns the topic for a message. Default: its Topic.
	Topic func(m outbox.Message) string
}

// NewSink returns a Sink. The caller closes the client, after use. NewSink returns an error if the client has the
// option kgo.DisableIdempotentWrite: such a client may write a record twice, and need not wait for all replicas.
//
// Do not produce with the client elsewhere: a broker refuses all records of a request because of one, and the Sink can
// find that one only among its own.
func NewSink(client *kgo.Client, o SinkOptions) (*Sink, error) {
	if off, _ := client.OptValue(kgo.DisableIdempotentWrite).(bool); off {
		return nil, errors.New("kafkasafe: the client must write idempotently: remove kgo.DisableIdempotentWrite")
	}
	if o.Topic == nil {
		o.Topic = func(m outbox.Message) string { return m.Topic }
	}
	return &Sink{client: client, options: o}, nil
}

var _ outbox.Sink = (*Sink)(nil)

// Send produces all messages of the batch concurrently, with their keys in the header Idempotency-Key. A record's key
// is the message's Aggregate, so that the messages of one aggregate are in one partition, in order. Errors are
// permanent for messages that are too large, that the topic does not accept, or whose topic has an invalid name.
func (s *Sink) Send(ctx context.Context, batch []outbox.Delivery) []error {
	answers := s.together(ctx, batch)
	for i, err := range answers {
		if refusedTogether(err) {
			answers[i] = s.singly(ctx, batch[i].Message)
		}
	}
	return answers
}

func (s *Sink) together(ctx context.Context, batch []outbox.Delivery) []error {
	s.alone.RLock()
	defer s.alone.RUnlock()
	records := make([]*kgo.Record, len(batch))
	for i, d := range batch {
		records[i] = s.record(d.Message)
	}
	answers := produce(ctx, s.client, records...)
	for i, err := range answers {
		answers[i] = classify(err)
	}
	return answers
}

// refusedTogether reports whether a broker gives this error for all records of a partition in a request, although only
// one is bad.
func refusedTogether(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord)
}

// singly produces a message in a request of its own, to find out whether it is the one that the broker refuses.
func (s *Sink) singly(ctx context.Context, m outbox.Message) error {
	s.alone.Lock()
	defer s.alone.Unlock()
	return classify(produce(ctx, s.client, s.record(m))[0])
}

// produce produces records and waits for an answer to each, or for the end of ctx: an idempotent producer keeps a
// record that it may have written until a broker answers, however long that takes.
func produce(ctx context.Context, client *kgo.Client, records ...*kgo.Record) []error {
	type result struct {
		at  int
		err error
	}
	results := make(chan result, len(records))
	for i, r := range records {
		client.Produce(ctx, r, func(_ *kgo.Record, err error) { results <- result{i, err} })
	}
	answers, answered := make([]error, len(records)), make([]bool, len(records))
	for range records {
		var r result
		select {
		case r = <-results:
		case <-ctx.Done():
			select {
			case r = <-results: // it came before
			default:
				for i := range answers {
					if !answered[i] {
						answers[i] = ctx.Err()
					}
				}
				return answers
			}
		}
		answers[r.at], answered[r.at] = r.err, true
	}
	return answers
}

func (s *Sink) record(m outbox.Message) *kgo.Record {
	r := &kgo.Record{Topic: s.options.Topic(m), Value: m.Body}
	if m.Aggregate != "" {
		r.Key = []byte(m.Aggregate)
	}
	headers := queuesafe.WithKey(m.Header, m.Key)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(headers[name])})
	}
	return r
}

func classify(err error) error {
	for _, no := range []error{kerr.MessageTooLarge, kerr.InvalidTopicException, kerr.InvalidRecord} {
		if errors.Is(err, no) {
			return outbox.Permanent(err)
		}
	}
	return err
}
