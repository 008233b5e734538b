package outbox

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// RelayOptions are the options of a Relay. RelayOptions{} works. A negative duration counts as not set, except for
// Retention.
type RelayOptions struct {
	// Topic restricts the relay to messages with one topic, which an operator may pause: see Outbox.Pause. Default: it
	// takes messages with any topic, paused or not.
	Topic string
	// BySender lets the senders of the messages that Put saves take turns (Entry.Sender), so that one with many messages
	// does not hold up another one with few: while more wait than the relay takes at once, half of what it takes are
	// messages of the next senders, and half those that are due for longest. It needs a Topic. Default: the messages that
	// are due for longest come first, of any sender.
	BySender bool
	// Batch is the maximum number of messages taken and sent together. Default 100.
	Batch int
	// Workers is the number of batches that are processed at once. Default 1. With a Sink made by Each there is one worker,
	// which takes the next messages while others are still being sent.
	Workers int
	// Lease is how long a batch belongs to the relay that took it. After that, other relays send what this one has
	// not sent, so a crash delays messages by up to a lease. A Sink gets three quarters of it for a batch. The lease on
	// messages that a Sink made by Each is still sending is extended. Default 1 minute.
	Lease time.Duration
	// Timeout is how long a Sink made by Each may take for one message, whose context then ends. Other sinks have the time
	// that Lease leaves them. Default three quarters of Lease.
	Timeout time.Duration
	// Idle is the longest time between two polls when there was nothing to send. Default 500 ms. See Wake.
	Idle time.Duration
	// FirstDelay is the upper limit of the delay after a message's first failure. The limit doubles with each
	// failure, up to MaxDelay; the delay is random below it. Defaults 1 s and 10 minutes.
	FirstDelay, MaxDelay time.Duration
	// MaxTries is the number of tries after which a message becomes a dead letter. A crash in the middle of a batch
	// counts as a try. Default 20, which takes about an hour with the default delays; negative means no limit.
	MaxTries int
	// MaxAge is the age at which a message that was not sent becomes a dead letter, when its next try has failed. Default:
	// no limit.
	MaxAge time.Duration
	// PassDead lets messages be sent although an earlier message of their aggregate is a dead letter. Default: they
	// wait until the dead letter is redelivered or dropped.
	PassDead bool
	// Retention is how long sent messages are kept, also those with other topics than Topic. During that time, saving the same message again adds nothing.
	// Default 24 hours; negative: they are deleted by the next sweep.
	Retention time.Duration
	// SweepEvery is the time between two sweeps, which delete messages past their retention. Default 1 minute.
	SweepEvery time.Duration
	// AsyncMarks lets a power cut undo what the relay has noted last of messages, such as that they were sent: they are
	// sent again then. On SQLite with a write-ahead log, that is on disk with the next transaction that is synced, and
	// costs no sync of its own; elsewhere it changes nothing. It is for sinks that know what they were sent before.
	AsyncMarks bool
	// Circuit is shared by relays with a Sink made by Each that send to the same receiver, so that while it cannot be
	// reached one message at a time of all of them tries it. Default: the relay has its own.
	Circuit *Circuit
	// Observer receives the relay's events. Default: none.
	Observer Observer
}

// Relay takes messages from an outbox and sends them through a Sink. Any number of relays may run, in any number of
// processes.
type Relay struct {
	box  *Outbox
	sink Sink
	o    RelayOptions
	wake chan struct{}

	turns turns
}

// NewRelay returns a relay. It does nothing until Run is called.
func NewRelay(box *Outbox, sink Sink, o RelayOptions) *Relay {
	o.Batch, o.Workers = max(cmp.Or(o.Batch, 100), 1), max(o.Workers, 1)
	for d, standard := range map[*time.Duration]time.Duration{
		&o.Lease: time.Minute, &o.Idle: 500 * time.Millisecond, &o.FirstDelay: time.Second, &o.MaxDelay: 10 * time.Minute,
		&o.SweepEvery: time.Minute,
	} {
		if *d <= 0 { // a negative one would panic in a ticker
			*d = standard
		}
	}
	if o.Timeout <= 0 {
		o.Timeout = o.Lease / 4 * 3
	}
	if o.MaxTries = cmp.Or(o.MaxTries, 20); o.MaxTries < 0 {
		o.MaxTries = math.MaxInt
	}
	o.Retention = cmp.Or(o.Retention, 24*time.Hour)
	o.Circuit = cmp.Or(o.Circuit, new(Circuit))
	return &Relay{box: box, sink: sink, o: o, wake: make(chan struct{}, o.Workers)}
}

// Run sends messages until ctx ends, finishes the batches that are being sent, which takes up to Lease, and returns
// ctx's error. Errors of the database do not end it; they are reported to the Observer and retried.
func (r *Relay) Run(ctx context.Context) error {
	var all sync.WaitGroup
	if e, ok := r.sink.(*each); ok {
		all.Go(func() { r.stream(ctx, e) })
	} else {
		for range r.o.Workers {
			all.Go(func() { r.work(ctx) })
		}
	}
	all.Go(func() { r.sweep(ctx) })
	all.Wait()
	return ctx.Err()
}

// Wake makes a waiting relay poll at once. Call it after a commit that saved messages if the relay runs in the same
// process; other relays find the messages within Idle. Wake does not block.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // an earlier wake-up is still pending
	}
}

// work processes batches, one after the other.
func (r *Relay) work(ctx context.Context) {
	for ctx.Err() == nil {
		switch n, err := r.batch(ctx); {
		case err != nil && ctx.Err() == nil:
			r.observe(ctx, Event{Kind: DatabaseFailed, Err: err})
			r.wait(ctx, nil)
		case n == 0:
			r.wait(ctx, r.wake)
		}
	}
}

// wait waits between half of Idle and Idle: relays that started together should not poll together.
func (r *Relay) wait(ctx context.Context, wake <-chan struct{}) {
	timer := time.NewTimer(r.o.Idle/2 + rand.N(r.o.Idle/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// sweep deletes messages past their retention at regular intervals.
func (r *Relay) sweep(ctx context.Context) {
	ticker := time.NewTicker(r.o.SweepEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		n, err := r.box.Sweep(ctx, max(r.o.Retention, 0))
		switch {
		case err != nil && ctx.Err() == nil:
			r.observe(ctx, Event{Kind: DatabaseFailed, Err: err})
		case n > 0:
			r.observe(ctx, Event{Kind: SweepEnded, Count: n, Took: time.Since(began)})
		}
		if n == sweepPiece {
			continue // there may be more to delete
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}
