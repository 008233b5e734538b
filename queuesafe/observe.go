package queuesafe

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Observer is told what happens to messages. It is called by many goroutines at once and must not block. What happens to keys
// is told to the Guard's own.
type Observer func(ctx context.Context, e Event)

// Event is one thing that happened. Fields that its Kind does not mention are zero.
type Event struct {
	Kind     EventKind
	Consumer string
	// Source and Delivery of the message; Key prints as its digest and is empty if the message has none.
	Source   string
	Delivery int
	Key      retrysafe.Key
	// Disposition and Took, the time from the delivery to it, for Handled.
	Disposition Disposition
	Took        time.Duration
	Err         error
}

// EventKind names what happened. String gives a name fit for a metric's label.
type EventKind uint8

const (
	// Handled: a delivery has been decided on. Source, Delivery, Key, Disposition, Took; Err is that of the Disposition.
	Handled EventKind = iota + 1
	// ExtendFailed: the broker could not be asked to leave a message here for longer; it may be delivered to somebody else
	// meanwhile, who will find the key in flight. Source, Delivery, Key, Err.
	ExtendFailed
	// SettleFailed: the broker could not be told what becomes of a message; it will deliver it again. Source, Delivery, Err.
	SettleFailed
	// Disconnected: the connection to the broker, or what was consumed from, was lost, and is being made again. Source, Err.
	Disconnected
	// Connected: messages are being consumed. Source.
	Connected
)

// String returns the kind's name in snake case.
func (k EventKind) String() string {
	return name(int(k), "handled", "extend_failed", "settle_failed", "disconnected", "connected")
}

// Tell tells the observer, if there is one. Adapters call it.
func (c *Consumer) Tell(ctx context.Context, e Event) {
	if c.options.Observer != nil {
		e.Consumer = c.name
		c.options.Observer(ctx, e)
	}
}
