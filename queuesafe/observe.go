package queuesafe

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Observer receives the events of Consumers. Observe is called concurrently and must not block. Events about keys go to
// the Guard's own Observer. Ignore kinds that you do not know: new kinds may come with new versions.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function that implements Observer.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Event is something that happened to a message or to a connection. Fields that its Kind does not mention are zero.
type Event struct {
	Kind EventKind
	// Consumer is the Consumer's name.
	Consumer string
	// Source and Delivery are those of the message.
	Source   string
	Delivery int
	// Key prints as its digest. It is empty if the message has none.
	Key retrysafe.Key
	// Disposition is what was decided about the message.
	Disposition Disposition
	// Took is the time from the beginning of Handle to the decision.
	Took time.Duration
	Err  error
}

// EventKind names what happened. String gives a name that is fit for a metric's label.
type EventKind uint8

const (
	// Handled: a delivery was decided on. Source, Delivery, Key, Disposition, Took; Err is that of the Disposition.
	Handled EventKind = iota + 1
	// ExtendFailed: asking the broker to leave a message here for longer failed. The broker may deliver it to another
	// consumer meanwhile, which will find the key in flight. Source, Delivery, Key, Err.
	ExtendFailed
	// SettleFailed: telling the broker what happens to a message failed. The broker will deliver it again. Source,
	// Delivery, Err.
	SettleFailed
	// Disconnected: the connection to the broker, or the queue that was consumed from, was lost; the adapter
	// reconnects. Source, Err.
	Disconnected
	// Connected: messages are being consumed. Source.
	Connected
)

// String returns the kind's name in snake case.
func (k EventKind) String() string {
	return name(int(k), "handled", "extend_failed", "settle_failed", "disconnected", "connected")
}

// Tell adds the consumer's name to an event and passes it to [Options.Observer], if there is one. Adapters call it.
func (c *Consumer) Tell(ctx context.Context, e Event) {
	if c.options.Observer != nil {
		e.Consumer = c.name
		c.options.Observer.Observe(ctx, e)
	}
}
