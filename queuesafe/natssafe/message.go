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
	// IDHeader is the Nats-Msg-Id that the message had, if any: the dead letter has one of its own.
	IDHeader = "Retrysafe-Id"
	// DeliveriesHeader is how often it was delivered.
	DeliveriesHeader = "Retrysafe-Deliveries"
)

// messageOf is the message as its handler sees it. Its position is its sequence number in the stream.
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

// deadLetter is a copy of a message. Its ID is that of the place it had in its stream, so that a second copy is dropped if the
// dead letters are kept in a stream too, within its window for duplicates.
func deadLetter(subject string, msg jetstream.Msg, at *jetstream.MsgMetadata, d queuesafe.Disposition) *nats.Msg {
	m := nats.NewMsg(subject)
	for name, values := range msg.Headers() {
		switch name {
		case nats.ExpectedStreamHdr, nats.ExpectedLastSeqHdr, nats.ExpectedLastSubjSeqHdr, nats.ExpectedLastMsgIdHdr, nats.MsgRollup,
			jetstream.MsgTTLHeader: // what the server would obey
		default:
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

// takesOwnDeadLetters reports whether the consumer would be given its dead letters: then each would make another one, for ever.
// A server that does not say which stream keeps them, since none does or nobody may ask, is believed.
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
	return len(filters) == 0 || slices.ContainsFunc(filters, func(f string) bool { return matches(f, c.options.DeadLetters) })
}

// matches reports whether a filter takes a subject.
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
