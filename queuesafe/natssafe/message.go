package natssafe

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/queuesafe"
)

// Headers of dead letters.
const (
	// ReasonHeader is the queuesafe.Situation.
	ReasonHeader = "Retrysafe-Reason"
	// SubjectHeader is the subject that the message was published to.
	SubjectHeader = "Retrysafe-Subject"
	// IDHeader is the Nats-Msg-Id of the message, if it had one. The dead letter has another.
	IDHeader = "Retrysafe-Id"
	// DeliveriesHeader is how often the message was delivered.
	DeliveriesHeader = "Retrysafe-Deliveries"
)

// messageOf returns the message as its handler sees it. Its position is its sequence number in the stream.
func messageOf(msg jetstream.Msg, at *jetstream.MsgMetadata, ackWait time.Duration) queuesafe.Message {
	h := msg.Headers()
	return queuesafe.Message{
		ID:          h.Get(nats.MsgIdHdr),
		Source:      at.Stream,
		Position:    strconv.FormatUint(at.Sequence.Stream, 10),
		Header:      queuesafe.Header(h),
		Body:        msg.Data(),
		Delivery:    int(at.NumDelivered),
		Extend:      func(context.Context) error { return msg.InProgress() },
		ExtendEvery: ackWait / 3,
	}
}

// isInstruction reports whether the server would act on a header, as on Nats-Rollup, which deletes earlier messages, or
// could refuse a message because of it, as with Nats-Batch-Id, which it keeps with the messages of a batch.
func isInstruction(name string) bool { return strings.HasPrefix(strings.ToLower(name), "nats-") }

// deadLetter returns a copy of a message. Its ID is made of the message's sequence number, so that the stream of the
// dead letters drops a second copy within its window for duplicates.
func deadLetter(subject string, msg jetstream.Msg, at *jetstream.MsgMetadata, d queuesafe.Disposition) *nats.Msg {
	m := nats.NewMsg(subject)
	for name, values := range msg.Headers() {
		if !isInstruction(name) {
			m.Header[name] = values
		}
	}
	if id := msg.Headers().Get(nats.MsgIdHdr); id != "" && m.Header.Get(IDHeader) == "" {
		m.Header.Set(IDHeader, id)
	}
	m.Header.Set(nats.MsgIdHdr, "dead:"+at.Stream+":"+at.Consumer+":"+strconv.FormatUint(at.Sequence.Stream, 10))
	m.Header.Set(ReasonHeader, d.Situation.String())
	m.Header.Set(SubjectHeader, msg.Subject())
	m.Header.Set(DeliveriesHeader, strconv.FormatUint(at.NumDelivered, 10))
	m.Data = msg.Data()
	return m
}

// takesOwnDeadLetters reports whether the consumer would receive its own dead letters, each of which would then make
// another one. It reports false if the server does not return the stream of the dead letters: there is none, or the
// client may not look it up.
func (c *Consumer) takesOwnDeadLetters(ctx context.Context) bool {
	if c.options.DeadLetters == "" {
		return false
	}
	stream, err := c.js.StreamNameBySubject(ctx, c.options.DeadLetters)
	if err != nil || stream != c.source {
		return false
	}
	config := c.pull.CachedInfo().Config
	filters := append(slices.Clone(config.FilterSubjects), config.FilterSubject)
	filters = slices.DeleteFunc(filters, func(f string) bool { return f == "" })
	return len(filters) == 0 || slices.ContainsFunc(filters,
		func(f string) bool { return matches(f, c.options.DeadLetters) })
}

// matches reports whether a filter matches a subject.
func matches(filter, subject string) bool {
	tokens := strings.Split(subject, ".")
	for i, f := range strings.Split(filter, ".") {
		switch {
		case f == ">":
			return i < len(tokens)
		case i >= len(tokens) || f != "*" && f != tokens[i]:
			return false
		}
	}
	return len(tokens) == strings.Count(filter, ".")+1
}
