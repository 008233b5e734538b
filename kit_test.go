package retrysafe_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var errDown = errors.New("store is down")

// faulty is a memstore whose calls can be made to fail, before or after they have taken effect.
type faulty struct {
	*memstore.Store
	mu    sync.Mutex
	rules map[string]func() (apply bool, err error)
	calls map[string]int
	slow  atomic.Bool // claims take as long as their context lasts
}

func newFaulty() *faulty {
	return &faulty{
		Store: memstore.New(memstore.Options{}),
		rules: map[string]func() (bool, error){},
		calls: map[string]int{},
	}
}

// on sets the rule for a method: whether the call takes effect, and the error that the caller sees.
func (f *faulty) on(method string, rule func() (apply bool, err error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules[method] = rule
}

// down makes methods fail without effect.
func (f *faulty) down(methods ...string) {
	for _, m := range methods {
		f.on(m, func() (bool, error) { return false, errDown })
	}
}

func (f *faulty) up() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.rules)
}

func (f *faulty) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func (f *faulty) call(method string, apply func() error) error {
	f.mu.Lock()
	f.calls[method]++
	rule := f.rules[method]
	f.mu.Unlock()
	if rule == nil {
		return apply()
	}
	does, err := rule()
	if does {
		if e := apply(); e != nil {
			return e
		}
	}
	return err
}

func (f *faulty) Claim(ctx context.Context, p retrysafe.ClaimParams) (c retrysafe.Claim, err error) {
	if f.slow.Load() {
		<-ctx.Done()
		return c, ctx.Err()
	}
	err = f.call("claim", func() (err error) { c, err = f.Store.Claim(ctx, p); return err })
	return c, err
}

func (f *faulty) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return f.call("extend", func() error { return f.Store.Extend(ctx, l, d) })
}

func (f *faulty) Checkpoint(ctx context.Context, l retrysafe.Lease, s retrysafe.StepResult) error {
	return f.call("checkpoint", func() error { return f.Store.Checkpoint(ctx, l, s) })
}

func (f *faulty) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, k retrysafe.Retention) error {
	return f.call("complete", func() error { return f.Store.Complete(ctx, l, r, k) })
}

func (f *faulty) Release(ctx context.Context, l retrysafe.Lease) error {
	return f.call("release", func() error { return f.Store.Release(ctx, l) })
}

func (f *faulty) Purge(ctx context.Context, d retrysafe.Digest, fence int64, s retrysafe.StepResult) error {
	return f.call("purge", func() error { return f.Store.Purge(ctx, d, fence, s) })
}

func (f *faulty) Reopen(ctx context.Context, d retrysafe.Digest, fence int64, s retrysafe.StepResult) error {
	return f.call("reopen", func() error { return f.Store.Reopen(ctx, d, fence, s) })
}

func (f *faulty) Inspect(ctx context.Context, d retrysafe.Digest) (found []retrysafe.Record, err error) {
	err = f.call("inspect", func() (err error) { found, err = f.Store.Inspect(ctx, d); return err })
	return found, err
}

// kit is a guard on a faulty store, with time that passes at once.
type kit struct {
	*testing.T
	ctx   context.Context
	store *faulty
	guard *retrysafe.Guard
	ran   atomic.Int64

	mu     sync.Mutex
	events []retrysafe.Event
}

// bubble runs test with a kit inside a synctest bubble: time.Sleep passes time without waiting.
func bubble(t *testing.T, p retrysafe.Policy, test func(k *kit)) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, p)
		defer func() {
			if err := k.guard.Shutdown(k.ctx); err != nil {
				t.Errorf("shutdown: %v", err)
			}
		}()
		test(k)
	})
}

func newKit(t *testing.T, p retrysafe.Policy) *kit {
	k := &kit{T: t, ctx: context.Background(), store: newFaulty()}
	k.guard = retrysafe.New(k.store, retrysafe.Options{Policy: p, Observer: retrysafe.ObserverFunc(k.observe)})
	return k
}

func (k *kit) observe(_ context.Context, e retrysafe.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

// saw counts the events of a kind.
func (k *kit) saw(kind retrysafe.EventKind) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, e := range k.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// request names operation id with fingerprint f.
func request(id string, f retrysafe.Fingerprint) retrysafe.Request {
	return retrysafe.Request{Key: retrysafe.Key{Scope: "alice", ID: id}, Fingerprint: f}
}

// pay is the usual request.
func pay() retrysafe.Request { return request("pay-1", "raw1:a") }

// answer is work that counts its runs and answers body.
func (k *kit) answer(body string) retrysafe.Work {
	return func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
		k.ran.Add(1)
		return retrysafe.Result{Code: 201, Body: []byte(body)}, nil
	}
}

// failing is work that counts its runs and returns err.
func (k *kit) failing(err error) retrysafe.Work {
	return func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
		k.ran.Add(1)
		return retrysafe.Result{}, err
	}
}

// taking is work that takes d.
func (k *kit) taking(d time.Duration, body string) retrysafe.Work {
	return func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
		time.Sleep(d)
		return k.answer(body)(ctx, a)
	}
}

// crash leaves key pay-1 as a process would that died while working, and lets its lease run out.
func (k *kit) crash(steps ...retrysafe.StepResult) retrysafe.Lease {
	k.Helper()
	r := pay()
	c, err := k.store.Store.Claim(k.ctx, retrysafe.ClaimParams{
		Key: r.Key, Fingerprint: r.Fingerprint, Owner: retrysafe.NewOwner(), Lease: time.Second,
		Keep: retrysafe.Retention{}.WithDefaults(),
	})
	if err != nil || c.Verdict != retrysafe.Acquired {
		k.Fatalf("crash: claim = %v, %v", c.Verdict, err)
	}
	for _, s := range steps {
		if err := k.store.Store.Checkpoint(k.ctx, c.Lease, s); err != nil {
			k.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	return c.Lease
}

func (k *kit) wantRuns(want int64) {
	k.Helper()
	if got := k.ran.Load(); got != want {
		k.Errorf("the work ran %d times, want %d", got, want)
	}
}

// wantAnswer checks that Do answers body, replayed or not.
func (k *kit) wantAnswer(r retrysafe.Request, work retrysafe.Work, body string, replayed bool) {
	k.Helper()
	out, err := k.guard.Do(k.ctx, r, work)
	if err != nil || string(out.Result.Body) != body || out.Replayed != replayed {
		k.Errorf("Do = %q, replayed %v, %v; want %q, replayed %v", out.Result.Body, out.Replayed, err, body, replayed)
	}
}

// wantRefusal checks that Do refuses with reason and does not run.
func (k *kit) wantRefusal(r retrysafe.Request, reason error) {
	k.Helper()
	before := k.ran.Load()
	_, err := k.guard.Do(k.ctx, r, k.answer("must not run"))
	if !errors.Is(err, reason) {
		k.Errorf("Do = %v, want %v", err, reason)
	}
	if k.ran.Load() != before {
		k.Error("the work ran although the request was refused")
	}
}
