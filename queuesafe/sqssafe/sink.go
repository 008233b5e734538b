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

// Sink sends the outbox's messages to SQS: it is an outbox.Sink. A message counts as sent once SQS has it.
type Sink struct {
	client  *sqs.Client
	options SinkOptions
}

// SinkOptions may be left empty.
type SinkOptions struct {
	// QueueURL of the queue that a message goes to. Default: its Topic.
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

// parallelBatches is how many requests are under way at once.
const parallelBatches = 8

// Send sends the batch, ten messages at a time, with their keys and headers as message attributes. To a FIFO queue the group is the
// Aggregate, or else the key, and the deduplication ID is the key, or a digest of one that is too long.
//
// Messages that SQS cannot take are not tried again: one that is too large, a body or a header that is empty or not text, more than
// nine headers, a name that SQS does not allow.
func (s *Sink) Send(ctx context.Context, batch []outbox.Delivery) []error {
	answers := make([]error, len(batch))
	var requests []request
	for i, d := range batch {
		if answers[i] = unfit(d.Message); answers[i] == nil {
			requests = s.add(requests, i, d.Message)
		}
	}
	places := make([]outbox.Delivery, len(requests)) // Each counts them, and waits
	for i := range places {
		places[i].ID = int64(i)
	}
	outbox.Each(parallelBatches, func(ctx context.Context, d outbox.Delivery) error {
		s.send(ctx, requests[d.ID], answers)
		return nil
	}).Send(ctx, places)
	return answers
}

// request is what goes together: at most ten messages for one queue, and no more bytes than SQS has always taken.
type request struct {
	queue   string
	entries []types.SendMessageBatchRequestEntry
	at      []int // their places in the batch
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

// short is a name as it is, or a digest of one that SQS would not take: longer than 128, or with spaces or letters beyond ASCII.
func short(name string) string {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(name) <= 128 && !strings.ContainsFunc(name, odd) {
		return name
	}
	digest := sha256.Sum256([]byte(name))
	return hex.EncodeToString(digest[:])
}

// unfit says why SQS cannot take a message.
func unfit(m outbox.Message) error {
	switch {
	case len(m.Body) == 0:
		return outbox.Permanent(errors.New("sqssafe: SQS takes no empty body"))
	case !isText(string(m.Body)):
		return outbox.Permanent(errors.New("sqssafe: SQS takes text only: encode the body"))
	case len(queuesafe.WithKey(m.Header, m.Key)) > maxAttributes:
		return outbox.Permanent(fmt.Errorf("sqssafe: SQS takes %d attributes, the key among them", maxAttributes))
	}
	for name, value := range m.Header {
		if !isName(name) || value == "" || !isText(value) {
			return outbox.Permanent(fmt.Errorf("sqssafe: SQS takes no such attribute as the header %q", name))
		}
	}
	return nil
}

const maxAttributeName = 256

// isName reports whether an attribute can have the name.
func isName(name string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	}
	lower := strings.ToLower(name)
	return name != "" && len(name) <= maxAttributeName && !strings.ContainsFunc(name, odd) && !strings.Contains("."+name+".", "..") &&
		!strings.HasPrefix(lower, "aws.") && !strings.HasPrefix(lower, "amazon.")
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unsendable) }

// unsendable characters are what SQS's page on SendMessage does not list, after the W3C's for XML.
func unsendable(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
}

func (s *Sink) send(ctx context.Context, r request, answers []error) {
	out, err := s.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &r.queue, Entries: r.entries})
	var tooLong *types.BatchRequestTooLong
	if errors.As(err, &tooLong) && len(r.entries) == 1 {
		err = outbox.Permanent(err)
	}
	for i, e := range r.entries {
		if err != nil {
			answers[r.at[i]] = err
			continue
		}
		answers[r.at[i]] = sent(out, aws.ToString(e.Id))
	}
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
	case "InvalidMessageContents", "InvalidParameterValue", "InvalidAttributeValue", "MessageTooLong", "UnsupportedOperation":
		return outbox.Permanent(failure(e))
	}
	return failure(e)
}
