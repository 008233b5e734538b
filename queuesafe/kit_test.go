package queuesafe_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var errDown = errors.New("store is down")

// faulty is a memstore that can be down, for claims or for completions.
type faulty struct {
	*memstore.Store
	claimDown, completeDown atomic.Bool
	claims, writes          atomic.Int64
}

func (f *faulty) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	f.claims.Add(1)
	if f.claimDown.Load() {
		return retrysafe.Claim{}, errDown
	}
	return f.Store.Claim(ctx, p)
}

func (f *faulty) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	f.writes.Add(1)
	if f.completeDown.Load() {
		return errDown
	}
	return f.Store.Complete(ctx, l, r, keep)
}

func (f *faulty) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	f.writes.Add(1)
	return f.Store.Extend(ctx, l, d)
}

// kit is a consumer on a faulty store, in a bubble where time passes at once.
type kit struct {
	*testing.T
	ctx      context.Context
	store    *faulty
	guard    *retrysafe.Guard
	consumer *queuesafe.Consumer
	ran      atomic.Int64

	mu     sync.Mutex
	events []queuesafe.Event
}

func bubble(t *testing.T, p retrysafe.Policy, o queuesafe.Options, test func(k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &kit{T: t, ctx: context.Background(), store: &faulty{Store: memstore.New(memstore.Options{})}}
		k.guard = retrysafe.New(k.store, retrysafe.Options{Policy: p})
		o.Observer = queuesafe.ObserverFunc(k.observe)
		k.consumer = newConsumer(t, k.guard, o)
		test(k)
		if err := k.guard.Shutdown(k.ctx); err != nil {
			t.Error(err)
		}
	})
}

func newConsumer(t *testing.T, guard *retrysafe.Guard, o queuesafe.Options) *queuesafe.Consumer {
	t.Helper()
	c := queuesafe.New(guard, "billing", o)
	return c
}

func (k *kit) observe(_ context.Context, e queuesafe.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

// order is the usual message, as it is delivered for the n-th time.
func order(n int) queuesafe.Message {
	return queuesafe.Message{ID: "m-1", Source: "orders", Body: []byte(`{"order":"o-17"}`), Delivery: n}
}

// handle delivers a message to a handler that counts its runs and returns err.
func (k *kit) handle(m queuesafe.Message, err error) queuesafe.Disposition {
	return k.consumer.Handle(k.ctx, m, func(context.Context, queuesafe.Message) error {
		k.ran.Add(1)
		return err
	})
}

func (k *kit) want(d queuesafe.Disposition, s queuesafe.Situation, a queuesafe.Action) {
	k.Helper()
	if d.Situation != s || d.Action != a {
		k.Errorf("the message is %v: %v (%v), want %v: %v", d.Situation, d.Action, d.Err, s, a)
	}
	if (d.Action == queuesafe.Ack) != (d.Err == nil) {
		k.Errorf("%v comes with the error %v", d.Action, d.Err)
	}
}

func (k *kit) wantRuns(want int64) {
	k.Helper()
	if got := k.ran.Load(); got != want {
		k.Errorf("the handler ran %d times, want %d", got, want)
	}
}

// crash leaves the message's key as a process would that died while working.
func (k *kit) crash(m queuesafe.Message) {
	k.Helper()
	key, err := k.consumer.Key(m)
	if err != nil {
		k.Fatal(err)
	}
	p := retrysafe.ClaimParams{
		Key: key, Owner: retrysafe.NewOwner(), Lease: time.Second, Keep: retrysafe.Retention{}.WithDefaults(), TakeOver: true,
	}
	if c, err := k.store.Store.Claim(k.ctx, p); err != nil || c.Verdict != retrysafe.Acquired {
		k.Fatalf("crash: claim = %v, %v", c.Verdict, err)
	}
	time.Sleep(time.Second)
}
