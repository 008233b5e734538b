// Package queuetest is shared by the tests of the adapters to brokers. It runs consumers, counts what they do, and
// waits for it. An adapter's own kit embeds a Kit and adds the broker.
package queuetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Name is the name of all consumers.
const Name = "billing"

// patience is how long a test waits before it fails.
const patience = time.Minute

// Kit is a test with its consumers and their events.
type Kit struct {
	*testing.T
	// Store, Policy and Core apply to consumers that are created afterwards. New sets short delays in Core; the
	// Observer is the Kit's.
	Store  retrysafe.Store
	Policy retrysafe.Policy
	Core   queuesafe.Options
	// Ran counts the runs of handlers of all consumers.
	Ran atomic.Int64
	// Ending is closed when the consumer that was started last has been told to end. It handles nothing new from then on.
	Ending <-chan struct{}
	// Ended is closed when Run of the consumer that was started last has returned. Its handlers must have ended by
	// then.
	Ended chan struct{}

	mu     sync.Mutex
	events []queuesafe.Event
}

// New returns a Kit whose consumers share a store.
func New(t *testing.T, s retrysafe.Store) *Kit {
	return &Kit{T: t, Store: s, Core: queuesafe.Options{MinDelay: 10 * time.Millisecond, MaxDelay: 200 * time.Millisecond}}
}

// NewCore returns a Guard and a Consumer for an adapter's consumer, as another process would have.
func (k *Kit) NewCore() (*retrysafe.Guard, *queuesafe.Consumer) {
	k.Helper()
	guard := retrysafe.New(k.Store, retrysafe.Options{Policy: k.Policy})
	o := k.Core
	o.Observer = queuesafe.ObserverFunc(k.observe)
	c := queuesafe.New(guard, Name, o)
	return guard, c
}

// Counting returns h, whose runs Ran counts.
func (k *Kit) Counting(h queuesafe.Handler) queuesafe.Handler {
	return func(ctx context.Context, m queuesafe.Message) error {
		k.Ran.Add(1)
		return h(ctx, m)
	}
}

// Start starts a consumer and waits until it is connected. stop ends the consumer, its handlers and its Guard; so does
// the end of the test.
func (k *Kit) Start(guard *retrysafe.Guard, run func(context.Context) error) (stop func()) {
	k.Helper()
	before := k.Count(queuesafe.Connected)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	k.Ending, k.Ended = ctx.Done(), ended
	go func() {
		defer close(ended)
		if err := run(ctx); err != nil {
			k.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		if err := guard.Shutdown(context.Background()); err != nil {
			k.Error(err)
		}
	})
	k.Cleanup(stop)
	k.Until("connected", func() bool { return k.Count(queuesafe.Connected) > before })
	return stop
}

// late is a context that has ended once a consumer is connected, but whose Done says so as late as may be: in a select,
// what else is ready is chosen.
type late struct {
	context.Context
	ended atomic.Bool
}

func (c *late) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// EndsBeforeItsFirstMessage checks that run, which has a message to take, takes none once its context has ended.
func (k *Kit) EndsBeforeItsFirstMessage(run func(context.Context) error) {
	k.Helper()
	ctx, done := context.WithCancel(k.Context())
	defer done()
	ended := make(chan error, 1)
	go func() { ended <- run(&late{Context: ctx}) }()
	k.Until("ended", func() bool { return len(ended) > 0 || k.Count(queuesafe.Handled) > 0 })
	done()
	if err := <-ended; err != nil || k.Count(queuesafe.Handled) > 0 {
		k.Errorf("Run = %v; %+v", err, k.Events())
	}
}

// Wait is called by handlers. It waits for c, or for the end of a failed test.
func (k *Kit) Wait(c <-chan struct{}) {
	select {
	case <-c:
	case <-k.Context().Done():
	}
}

func (k *Kit) observe(ctx context.Context, e queuesafe.Event) {
	if ctx, ok := ctx.(*late); ok && e.Kind == queuesafe.Connected {
		ctx.ended.Store(true)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

// Events returns the events so far.
func (k *Kit) Events() []queuesafe.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.events)
}

// Count counts the events of a kind.
func (k *Kit) Count(kind queuesafe.EventKind) int {
	return k.countIf(func(e queuesafe.Event) bool { return e.Kind == kind })
}

// Saw counts the deliveries that ended in a situation.
func (k *Kit) Saw(s queuesafe.Situation) int {
	return k.countIf(func(e queuesafe.Event) bool { return e.Kind == queuesafe.Handled && e.Disposition.Situation == s })
}

func (k *Kit) countIf(so func(queuesafe.Event) bool) (n int) {
	for _, e := range k.Events() {
		if so(e) {
			n++
		}
	}
	return n
}

// Until waits until a condition holds; what describes it in one or two words. If it takes too long, the test fails and
// prints the events.
func (k *Kit) Until(what string, so func() bool) {
	k.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-end.C:
			k.Fatalf("not %s in time; %d runs; seen: %+v", what, k.Ran.Load(), k.Events())
		}
	}
}
