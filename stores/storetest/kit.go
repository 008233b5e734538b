package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// slack is how much real time a rule may take: durations are compared within it, and deadlines are crossed by it.
const slack = 10 * time.Second

// past takes the clock from just before a deadline to just after it.
const past = 2 * slack

// What claims ask for unless a rule says otherwise. The windows differ, so that none can stand in for another.
const (
	leaseTime  = 5 * time.Minute
	replayTime = time.Hour
	keyTime    = 2 * time.Hour
	auditTime  = 4 * time.Hour
)

var (
	keepAll = retrysafe.Retention{Replay: replayTime, Key: keyTime, Audit: auditTime}
	// keepLonger is what attempts complete with, so that it cannot be mistaken for what they claimed with.
	keepLonger = retrysafe.Retention{Replay: 6 * time.Hour, Key: 8 * time.Hour, Audit: 12 * time.Hour}
)

// kit is what a rule works with: one store, and short words for what one does with it. Every word fails the test when
// the store answers with an error that the rule does not expect.
type kit struct {
	*testing.T
	h     Harness
	store retrysafe.Store
	ctx   context.Context
}

func newKit(t *testing.T, h Harness) *kit {
	return &kit{T: t, h: h, store: h.Open(t), ctx: context.Background()}
}

// asking changes what a claim asks for.
type asking func(p *retrysafe.ClaimParams)

func by(o retrysafe.Owner) asking { return func(p *retrysafe.ClaimParams) { p.Owner = o } }
func forRequest(f retrysafe.Fingerprint) asking {
	return func(p *retrysafe.ClaimParams) { p.Fingerprint = f }
}
func lasting(d time.Duration) asking { return func(p *retrysafe.ClaimParams) { p.Lease = d } }
func keeping(keep retrysafe.Retention) asking {
	return func(p *retrysafe.ClaimParams) { p.Keep = keep }
}

func inScope(scope string) asking         { return func(p *retrysafe.ClaimParams) { p.Key.Scope = scope } }
func takingOver(p *retrysafe.ClaimParams) { p.TakeOver = true }

// params asks for the key with this ID, for the same request each time, by a new owner each time.
func params(id string, asks ...asking) retrysafe.ClaimParams {
	p := retrysafe.ClaimParams{
		Key:         retrysafe.Key{Scope: "tenant", ID: id},
		Fingerprint: "raw1:one",
		Owner:       retrysafe.NewOwner(),
		Lease:       leaseTime,
		Keep:        keepAll,
	}
	for _, ask := range asks {
		ask(&p)
	}
	return p
}

// anotherRequest has another fingerprint than params.
var anotherRequest = forRequest("raw1:two")

// claim expects an answer.
func (k *kit) claim(p retrysafe.ClaimParams) retrysafe.Claim {
	k.Helper()
	c, err := k.store.Claim(k.ctx, p)
	if err != nil {
		k.Fatalf("Claim: %v", err)
	}
	return c
}

// take expects to acquire the key.
func (k *kit) take(id string, asks ...asking) retrysafe.Lease {
	k.Helper()
	return k.acquire(id, asks...).Lease
}

// acquire expects to acquire the key.
func (k *kit) acquire(id string, asks ...asking) retrysafe.Claim {
	k.Helper()
	p := params(id, asks...)
	c := k.claim(p)
	if c.Verdict != retrysafe.Acquired {
		k.Fatalf("Claim: got %q, want %q", c.Verdict, retrysafe.Acquired)
	}
	if c.Lease.Key != p.Key || c.Lease.Owner != p.Owner || c.Lease.Fence <= 0 {
		k.Fatalf("Claim: got the lease %+v, want one for the key and the owner that asked", c.Lease)
	}
	return c
}

// find expects a verdict other than Acquired.
func (k *kit) find(want retrysafe.Verdict, id string, asks ...asking) retrysafe.Record {
	k.Helper()
	c := k.claim(params(id, asks...))
	if c.Verdict != want {
		k.Fatalf("Claim: got %q, want %q", c.Verdict, want)
	}
	if c.Lease != (retrysafe.Lease{}) {
		k.Errorf("Claim: %q comes with a lease", c.Verdict)
	}
	return c.Record
}

// abandon takes a key and lets its lease run out.
func (k *kit) abandon(id string, asks ...asking) retrysafe.Lease {
	k.Helper()
	l := k.take(id, asks...)
	k.age(leaseTime + slack)
	return l
}

// finish takes a key and completes it with body.
func (k *kit) finish(id, body string, keep retrysafe.Retention) retrysafe.Lease {
	k.Helper()
	l := k.take(id)
	k.complete(l, body, keep)
	return l
}

func (k *kit) age(d time.Duration) {
	k.Helper()
	k.h.Age(k.T, k.store, d)
}

func (k *kit) extend(l retrysafe.Lease, d time.Duration) {
	k.Helper()
	k.must("Extend", k.store.Extend(k.ctx, l, d))
}

func (k *kit) checkpoint(l retrysafe.Lease, name, data string) {
	k.Helper()
	k.must("Checkpoint", k.store.Checkpoint(k.ctx, l, step(name, data)))
}

func (k *kit) complete(l retrysafe.Lease, body string, keep retrysafe.Retention) {
	k.Helper()
	k.must("Complete", k.store.Complete(k.ctx, l, result(body), keep))
}

func (k *kit) release(l retrysafe.Lease) {
	k.Helper()
	k.must("Release", k.store.Release(k.ctx, l))
}

func (k *kit) must(method string, err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("%s: %v", method, err)
	}
}

// lost expects ErrLeaseLost.
func (k *kit) lost(method string, err error) {
	k.Helper()
	if !errors.Is(err, retrysafe.ErrLeaseLost) {
		k.Errorf("%s: got %v, want ErrLeaseLost", method, err)
	}
}

// allLost expects ErrLeaseLost from every method that takes a lease.
func (k *kit) allLost(l retrysafe.Lease) {
	k.Helper()
	k.lost("Extend", k.store.Extend(k.ctx, l, time.Hour))
	k.lost("Checkpoint", k.store.Checkpoint(k.ctx, l, step("zombie", "z")))
	k.lost("Complete", k.store.Complete(k.ctx, l, result("zombie"), keepLonger))
	k.lost("Release", k.store.Release(k.ctx, l))
}

// replays expects the key to be done, with this body.
func (k *kit) replays(id, body string) retrysafe.Record {
	k.Helper()
	r := k.find(retrysafe.Done, id)
	equal(k, "body", string(r.Result.Body), body)
	return r
}

// steps expects these names and data, in this order.
func (k *kit) steps(got []retrysafe.StepResult, want ...string) {
	k.Helper()
	var names []string
	for _, s := range got {
		names = append(names, s.Name+"="+string(s.Data))
	}
	equal(k, "steps", fmt.Sprint(names), fmt.Sprint(want))
}

// grows expects each fence to be larger than the one before.
func (k *kit) grows(fences ...int64) {
	k.Helper()
	for i, f := range fences[1:] {
		if f <= fences[i] {
			k.Errorf("fence: got %d after %d, want a larger one", f, fences[i])
		}
	}
}

// near expects a duration, give or take the time that the test itself takes.
func (k *kit) near(what string, got, want time.Duration) {
	k.Helper()
	if (got-want).Abs() > slack || got < 0 {
		k.Errorf("%s: got %v, want about %v", what, got, want)
	}
}

func equal[T comparable](k *kit, what string, got, want T) {
	k.Helper()
	if got != want {
		k.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func step(name, data string) retrysafe.StepResult {
	return retrysafe.StepResult{Name: name, Data: []byte(data)}
}

// result has a value in every field but Failed and Omitted.
func result(body string) retrysafe.Result {
	return retrysafe.Result{Code: 201, Meta: []byte("meta of " + body), Body: []byte(body)}
}
