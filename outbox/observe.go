package outbox

import (
	"context"
	"time"
)

// Observer receives the events of relays. Observe is called concurrently and must not block. Ignore kinds that you do
// not know: new versions may add some.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function that implements Observer.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Event describes one thing that happened in a relay. Fields that the comment of its Kind does not list are zero.
type Event struct {
	Kind EventKind
	// Key, Topic and Try are those of the message. Age is the time from saving the message to taking it.
	Key   string
	Topic string
	Try   int
	Age   time.Duration
	// Took is the time that the sink needed for the batch, or the sweep for one statement.
	Took time.Duration
	// Count is the number of messages.
	Count int
	Err   error
}

// EventKind is the kind of an Event.
type EventKind uint8

const (
	// MessageSent means that the sink has sent a message. Sets Key, Topic, Try, Age, Took.
	MessageSent EventKind = iota + 1
	// MessageFailed means that a message was not sent and will be retried. Sets Key, Topic, Try, Age, Took, Err.
	MessageFailed
	// MessageDead means that a message became a dead letter. Sets Key, Topic, Try, Age, Took, Err.
	MessageDead
	// BatchEnded means that the results of a batch were saved. Sets Count, Took.
	BatchEnded
	// LeaseLost means that the relay's lease expired and another relay has taken messages of its batch, which may
	// therefore be sent twice. This relay's results for them are ignored. Sets Count.
	LeaseLost
	// SweepEnded means that messages past their retention were deleted. Sets Count, Took.
	SweepEnded
	// DatabaseFailed means that a database statement failed; the relay retries it. Sets Err.
	DatabaseFailed
)

// String returns the kind in snake case, fit for a metric's label. Unknown kinds return "unknown".
func (k EventKind) String() string {
	names := [...]string{
		"message_sent", "message_failed", "message_dead", "batch_ended", "lease_lost", "sweep_ended", "database_failed",
	}
	if k == 0 || int(k) > len(names) {
		return "unknown"
	}
	return names[k-1]
}
