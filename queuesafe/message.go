package queuesafe

import (
	"context"
	"strings"
	"time"
)

// Message is a message that a broker has delivered. Adapters fill in what their broker knows; a Consumer does not
// change it.
type Message struct {
	// ID is the message's ID, chosen by the broker or the producer. It is the same on every delivery. Empty: it has
	// none.
	ID string
	// Source is where the message comes from: a queue, a stream, a topic and its partition ("orders/3").
	Source string
	// Position is the message's offset or sequence number in Source. It is the same on every delivery. Empty: the
	// broker has none.
	Position string
	// Header holds the message's headers.
	Header Header
	// Body is the message's body. Handlers must not change it.
	Body []byte
	// Delivery is the number of this delivery of the message, counted from 1. 0: the broker does not count.
	Delivery int

	// Extend asks the broker to leave the message with this consumer for a while longer. It is called every ExtendEvery
	// while the message is being handled, and its context ends after half of that time. Nil, or ExtendEvery 0: the broker
	// does not need this.
	Extend      func(context.Context) error
	ExtendEvery time.Duration
}

// Header holds the headers of a message. Names are kept as they were sent.
type Header map[string][]string

// Values returns all values of a header. The case of the name does not matter, because producers and brokers spell
// headers differently. The order of values with different spellings of the name is undefined.
func (h Header) Values(name string) []string {
	var values []string
	for n, v := range h {
		if strings.EqualFold(n, name) {
			values = append(values, v...)
		}
	}
	return values
}

// Handler does the work of a message. Its context is that of an attempt: see retrysafe.Work, also for the meaning of
// errors. In short: nil means that the message is done; retrysafe.Terminal(err) that it has failed for good and becomes a
// dead letter; retrysafe.Retryable(err) that nothing happened and the message is to be delivered again. An error without
// a mark has the message delivered again if the policy is to run it again (RerunTx, Rerun or Reconcile), and makes a
// dead letter of it under Refuse, the default.
//
// A store's InTx inside a Handler commits the handler's writes and the end of the key together. With that, and no other
// effect, choose RerunTx.
type Handler func(ctx context.Context, m Message) error
