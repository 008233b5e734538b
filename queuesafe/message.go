package queuesafe

import (
	"context"
	"strings"
	"time"
)

// Message is what a broker has delivered. Adapters fill in what their broker knows; a Consumer changes nothing of it.
type Message struct {
	// ID that the broker or the producer gave to the message. The same on every delivery. Empty: it has none.
	ID string
	// Source is where it comes from: a queue, a stream, a topic and its partition ("orders/3").
	Source string
	// Position in Source: an offset, a sequence number. The same on every delivery. Empty: the broker has none.
	Position string
	// Header of the message.
	Header Header
	// Body of the message. Handlers must not change it.
	Body []byte
	// Delivery says which delivery of the message this is: 1 is the first. 0: the broker does not count.
	Delivery int

	// Extend asks the broker to leave the message with this consumer for a while longer, and is called every ExtendEvery while
	// the message is being handled. Nil, or ExtendEvery 0: the broker needs no such thing.
	Extend      func(context.Context) error
	ExtendEvery time.Duration
}

// Header is what comes with a message beside its body. Names are kept as they were sent.
type Header map[string][]string

// Values returns all values under a name, in no order across spellings: case does not matter, since producers in different
// languages and brokers in between spell headers differently.
func (h Header) Values(name string) []string {
	var values []string
	for n, v := range h {
		if strings.EqualFold(n, name) {
			values = append(values, v...)
		}
	}
	return values
}

// Handler is the work that a message asks for. Its context is that of an attempt: see retrysafe.Work, also for how errors
// are read. In short: nil, the message is done; an error, it has failed for good and is a dead letter;
// retrysafe.Retryable(err), nothing happened and it comes again.
//
// A store's InTx inside of a Handler commits its writes and the end of the key together. Nothing else need be said about the
// result: it has none.
type Handler func(ctx context.Context, m Message) error
