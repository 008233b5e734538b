package sqssafe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Sink is an outbox.Sink that sends to SQS. A message counts as sent when SQS has accepted it.
type Sink struct {
	client  *sqs.Client
	options SinkOptions
}

// SinkOptions of a Sink. SinkOptions{} works.
type SinkOptions struct {
	// QueueURL returns the URL of the queue for a message. Default: its Topic.
	QueueURL func(m outbox.Message) string
}

// NewSink returns a Sink.
func NewSink(client *sqs.Client, o SinkOptions) *Sink {
	if o.QueueURL == nil {
		o.QueueURL = func(m outbox.Message) string { return m.Topic }
	}
	return &Sink{client: client, options: o}
}

var _ outbox.Sink = (*Sink)(nil)

// parallelBatches is how many requests are sent at once.
const parallelBatches = 8

// Send sends the batch, ten messages in a request, with their keys and headers as message attributes. In a FIFO queue a
// message's group is its Aggregate, or its key if it has none, and its deduplication ID is the key. A digest replaces
// values that are too long.
//
// Errors are permanent for messages that SQS cannot accept: those that are too large, with a body or a header that is
// empty or not text, with more than nine headers, or with a header name that SQS does not allow.
func (s *Sink) Send(ctx context.Context, batch []outbox.Delivery) []error {
	answers := make([]error, len(batch))
	var requests []request
	for i, d := range batch {
		if answers[i] = unfit(d.Message); answers[i] == nil {
			requests = s.add(requests, i, d.Message)
		}
	}
	numbers := make([]outbox.Delivery, len(requests)) // outbox.Each limits how many are sent at once
	for i := range numbers {
		numbers[i].ID = int64(i)
	}
	failed := outbox.Each(parallelBatches, func(ctx context.Context, d outbox.Delivery) error {
		return s.send(ctx, requests[d.ID], answers)
	}).Send(ctx, numbers)
	for n, err := range failed { // also a request for which there was no time, and send was not called
		if err != nil {
			for _, i := range requests[n].at {
				answers[i] = err
			}
		}
	}
	return answers
}

// request is a batch request: at most ten messages for one queue, within the size that all SQS endpoints accept.
type request struct {
	queue   string
	entries []types.SendMessageBatchRequestEntry
	at      []int // indices in Send's batch
	bytes   int
}

const maxRequestBytes = 256 << 10

func (s *Sink) add(requests []request, at int, m outbox.Message) []request {
	queue, e := s.options.QueueURL(m), types.SendMessageBatchRequestEntry{}
	size := len(m.Body)
	for name, value := range queuesafe.WithKey(m.Header, m.Key) {
		size += len(name) + len("String") + len(value)
	}
	i := slices.IndexFunc(requests, func(r request) bool {
		return r.queue == queue && len(r.entries) < maxBatch && r.bytes+size <= maxRequestBytes
	})
	if i < 0 {
		requests, i = append(requests, request{queue: queue}), len(requests)
	}
	r := &requests[i]
	e.Id, e.MessageBody, e.MessageAttributes = aws.String(strconv.Itoa(at)), aws.String(string(m.Body)), attributes(m)
	if isFIFO(queue) {
		e.MessageDeduplicationId = aws.String(short(m.Key))
		e.MessageGroupId = aws.String(short(m.Key))
		if m.Aggregate != "" {
			e.MessageGroupId = aws.String(short(m.Aggregate))
		}
	}
	r.entries, r.at, r.bytes = append(r.entries, e), append(r.at, at), r.bytes+size
	return requests
}

func attributes(m outbox.Message) map[string]types.MessageAttributeValue {
	all := map[string]types.MessageAttributeValue{}
	for name, value := range queuesafe.WithKey(m.Header, m.Key) {
		all[name] = text(value)
	}
	return all
}

// short returns a name unchanged, or its digest if SQS would not accept it: longer than 128 bytes, or not printable
// ASCII.
func short(name string) string {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(name) <= 128 && !strings.ContainsFunc(name, odd) {
		return name
	}
	digest := sha256.Sum256([]byte(name))
	return hex.EncodeToString(digest[:])
}

// unfit returns why SQS cannot accept a message.
func unfit(m outbox.Message) error {
	switch {
	case len(m.Body) == 0:
		return outbox.Permanent(errors.New("sqssafe: SQS does not accept an empty body"))
	case !isText(string(m.Body)):
		return outbox.Permanent(errors.New("sqssafe: SQS accepts only text: encode the body"))
	case len(queuesafe.WithKey(m.Header, m.Key)) > maxAttributes:
		return outbox.Permanent(fmt.Errorf("sqssafe: SQS accepts at most %d attributes, including the key", maxAttributes))
	}
	for name, value := range m.Header {
		if !isName(name) || value == "" || !isText(value) {
			return outbox.Permanent(fmt.Errorf("sqssafe: SQS does not accept the header %q as an attribute: its name "+
				"or its value is invalid", name))
		}
	}
	return nil
}

const maxAttributeName = 256

// isName reports whether SQS accepts the name of an attribute.
func isName(name string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	}
	lower := strings.ToLower(name)
	return name != "" && len(name) <= maxAttributeName && !strings.ContainsFunc(name, odd) &&
		!strings.Contains("."+name+".", "..") &&
		!strings.HasPrefix(lower, "aws.") && !strings.HasPrefix(lower, "amazon.")
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unsendable) }

// unsendable reports whether a character is not among those that SQS's documentation of SendMessage allows (those of
// XML).
func unsendable(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
}

// send sends a request, and saves SQS's answer to each message. It returns an error if the request has failed.
func (s *Sink) send(ctx context.Context, r request, answers []error) error {
	out, err := s.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &r.queue, Entries: r.entries})
	var tooLong *types.BatchRequestTooLong
	if errors.As(err, &tooLong) && len(r.entries) == 1 {
		err = outbox.Permanent(err)
	}
	if err != nil {
		return err
	}
	for i, e := range r.entries {
		answers[r.at[i]] = sent(out, aws.ToString(e.Id))
	}
	return nil
}

func sent(out *sqs.SendMessageBatchOutput, id string) error {
	for _, ok := range out.Successful {
		if aws.ToString(ok.Id) == id {
			return nil
		}
	}
	for _, no := range out.Failed {
		if aws.ToString(no.Id) == id {
			return classify(no)
		}
	}
	return errNoAnswer
}

func classify(e types.BatchResultErrorEntry) error {
	switch aws.ToString(e.Code) {
	case "InvalidMessageContents", "InvalidParameterValue", "InvalidAttributeValue", "MessageTooLong",
		"UnsupportedOperation":
		return outbox.Permanent(failure(e))
	}
	return failure(e)
}
