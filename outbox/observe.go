package outbox

import (
	"context"
	"time"
)

// Observer is told what a relay does. It is called by many goroutines at once and must not block. An observer that wants to be
// told of some kinds only ignores the others: new kinds may come with new versions.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function that is an Observer.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Event is one thing that happened. Fields that its Kind does not mention are zero.
type Event struct {
	Kind EventKind
	// Key, Topic and Try of the message, and its Age: how long it had been saved when it was taken.
	Key   string
	Topic string
	Try   int
	Age   time.Duration
	// Took is how long the sink took for the batch, or the sweep for its piece.
	Took time.Duration
	// Count is how many messages it is about.
	Count int
	Err   error
}

// EventKind names what happened. String gives a name fit for a metric's label.
type EventKind uint8

const (
	// MessageSent: the sink has sent a message. Key, Topic, Try, Age, Took.
	MessageSent EventKind = iota + 1
	// MessageFailed: a message was not sent, and is tried again later. Key, Topic, Try, Age, Took, Err.
	MessageFailed
	// MessageDead: a message became a dead letter. Key, Topic, Try, Age, Took, Err.
	MessageDead
	// BatchEnded: a batch was sent, or tried, and that is saved. Count, Took.
	BatchEnded
	// LeaseLost: a relay took so long that its lease ran out, and another has taken these of its messages; what this one says of them does
	// not count. They may be sent twice. Count.
	LeaseLost
	// SweepEnded: messages past their retention were deleted. Count, Took.
	SweepEnded
	// DatabaseFailed: the database could not be asked; the relay goes on trying. Err.
	DatabaseFailed
)

// String returns the kind's name in snake case.
func (k EventKind) String() string {
	names := [...]string{
		"message_sent", "message_failed", "message_dead", "batch_ended", "lease_lost", "sweep_ended", "database_failed",
	}
	if k == 0 || int(k) > len(names) {
		return "unknown"
	}
	return names[k-1]
}
