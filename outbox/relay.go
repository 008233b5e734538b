package outbox

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// RelayOptions of a Relay. RelayOptions{} works.
type RelayOptions struct {
	// Batch is how many messages are taken and sent together, at most. Default 100.
	Batch int
	// Workers is how many batches are under way at once. Default 1.
	Workers int
	// Lease is how long a batch belongs to the relay that has taken it. After it, other relays send what this one has not: that is how long
	// a crash delays a message. A Sink gets three quarters of it for a batch. Default 1 minute.
	Lease time.Duration
	// Idle is how long the relay waits at most, when there was nothing to send, before it looks again. Default 500 ms. See Wake.
	Idle time.Duration
	// FirstDelay is the longest delay after a message's first failure. It doubles with each further one, up to MaxDelay; the delay is
	// drawn at random below that. Defaults 1 s and 10 minutes.
	FirstDelay, MaxDelay time.Duration
	// MaxTries is how often a message is tried before it becomes a dead letter: a crash in the middle of a batch counts. Default 20,
	// which is about an hour with the other defaults; negative: no limit.
	MaxTries int
	// PassDead lets the messages behind a dead letter of the same aggregate go on. Default: they wait until somebody has redelivered or
	// dropped it.
	PassDead bool
	// Retention is how long sent messages are kept. For that long, saving one again adds nothing. Default 24 hours; negative: not at all.
	Retention time.Duration
	// SweepEvery is how often the relay looks for messages past their retention. Default 1 minute.
	SweepEvery time.Duration
	// Observer is told what happens. Default: nobody.
	Observer Observer
}

// Relay takes messages from an outbox and sends them. There may be many, in many processes.
type Relay struct {
	box  *Outbox
	sink Sink
	o    RelayOptions
	wake chan struct{}
}

// NewRelay returns a relay; Run starts it.
func NewRelay(box *Outbox, sink Sink, o RelayOptions) *Relay {
	o.Batch, o.Workers = max(cmp.Or(o.Batch, 100), 1), max(o.Workers, 1)
	o.Lease, o.Idle = cmp.Or(o.Lease, time.Minute), cmp.Or(o.Idle, 500*time.Millisecond)
	o.FirstDelay, o.MaxDelay = cmp.Or(o.FirstDelay, time.Second), cmp.Or(o.MaxDelay, 10*time.Minute)
	if o.MaxTries = cmp.Or(o.MaxTries, 20); o.MaxTries < 0 {
		o.MaxTries = math.MaxInt
	}
	o.Retention, o.SweepEvery = cmp.Or(o.Retention, 24*time.Hour), cmp.Or(o.SweepEvery, time.Minute)
	return &Relay{box: box, sink: sink, o: o, wake: make(chan struct{}, o.Workers)}
}

// Run sends messages until ctx ends, and then returns its error. The batches that are under way then are finished first, which takes
// up to Lease.
func (r *Relay) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for range r.o.Workers {
		all.Go(func() { r.work(ctx) })
	}
	all.Go(func() { r.sweep(ctx) })
	all.Wait()
	return ctx.Err()
}

// Wake makes a relay that waits look at once. Call it after a commit that has saved messages, if the relay runs in the same process; other
// relays find them within Idle.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // it has not yet seen an earlier one
	}
}

// work sends batch after batch.
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

// wait waits for Idle, or half of it: relays that started together need not look together.
func (r *Relay) wait(ctx context.Context, wake <-chan struct{}) {
	timer := time.NewTimer(r.o.Idle/2 + rand.N(r.o.Idle/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// sweep deletes what is past its retention, now and then, a piece at a time.
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
			continue // there is more
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}
