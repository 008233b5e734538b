package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Seen to fail with natsstore writing from its memory after a lease had been ended: the lease ran again. What the checker
// would see: TestCheckerCatchesBrokenStores.
func TestHistoriesAreLinearizable(t *testing.T) {
	for name, o := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := o.open(t)
			for seed := range uint64(5) {
				history := record(s, seed, 16, o.fewer(60))
				if got := check(history); got != porcupine.Ok {
					t.Errorf("seed %d: the history of %d calls is %s", seed, len(history), got)
				}
			}
		})
	}
}

// The checker must find stores that break the contract in one place each.
func TestCheckerCatchesBrokenStores(t *testing.T) {
	broken := map[string]func(retrysafe.Store) retrysafe.Store{
		"double claim":  func(s retrysafe.Store) retrysafe.Store { return doubleClaim{s} },
		"no fence":      func(s retrysafe.Store) retrysafe.Store { return &noFence{Store: s} },
		"forgets steps": func(s retrysafe.Store) retrysafe.Store { return forgetsSteps{s} },
	}
	for name, breakIt := range broken {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				if check(record(breakIt(memstore.New(memstore.Options{})), seed, 16, 60)) == porcupine.Illegal {
					return
				}
			}
			t.Error("not caught in 200 histories")
		})
	}
}

func check(history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(linearizable(), history, time.Minute)
}

// record lets clients make random concurrent calls with a few keys of this seed, and returns the history.
func record(s retrysafe.Store, seed uint64, clients, calls int) []porcupine.Operation {
	start := time.Now()
	histories := make([][]porcupine.Operation, clients)
	var all sync.WaitGroup
	for id := range clients {
		all.Go(func() {
			c := &randomCaller{store: s, seed: seed, rng: rand.New(rand.NewPCG(seed, uint64(id)))}
			for range calls {
				in := c.next()
				called := time.Since(start)
				out := c.call(in)
				histories[id] = append(histories[id], porcupine.Operation{
					ClientId: id, Input: in, Call: int64(called), Output: out, Return: int64(time.Since(start)),
				})
			}
		})
	}
	all.Wait()
	var history []porcupine.Operation
	for _, h := range histories {
		history = append(history, h...)
	}
	return history
}

// randomCaller makes random calls, half of them with the lease of its last claim, even if it is lost.
type randomCaller struct {
	store retrysafe.Store
	seed  uint64
	rng   *rand.Rand
	last  input // the last claim acquired: key, owner, fence
}

func (c *randomCaller) next() input {
	methods := []string{"extend", "lapse", "checkpoint", "complete", "release"}
	if c.last.fence != 0 && c.rng.IntN(3) > 0 {
		in := c.last
		in.method = methods[c.rng.IntN(len(methods))]
		in.text = fmt.Sprint("text-", c.rng.IntN(4))
		return in
	}
	in := input{
		method:      "claim",
		key:         fmt.Sprintf("key-%d-%d", c.seed, c.rng.IntN(12)),
		fingerprint: retrysafe.Fingerprint(fmt.Sprint("raw1:", c.rng.IntN(5)/4)),
		takeOver:    c.rng.IntN(2) == 0,
		owner:       retrysafe.NewOwner(),
	}
	if c.last.fence != 0 && c.rng.IntN(5) == 0 { // the answer was lost: claim again
		in.key, in.owner, in.fingerprint = c.last.key, c.last.owner, c.last.fingerprint
	}
	return in
}

func (c *randomCaller) call(in input) output {
	ctx := context.Background()
	l := retrysafe.Lease{Key: key(in), Owner: in.owner, Fence: in.fence}
	var err error
	switch in.method {
	case "claim":
		return c.claim(ctx, in)
	case "extend":
		err = c.store.Extend(ctx, l, time.Hour)
	case "lapse":
		err = c.store.Extend(ctx, l, 0)
	case "checkpoint":
		err = c.store.Checkpoint(ctx, l, retrysafe.StepResult{Name: in.text})
	case "complete":
		err = c.store.Complete(ctx, l, retrysafe.Result{Body: []byte(in.text)}, keep)
	case "release":
		err = c.store.Release(ctx, l)
	}
	if err != nil && !errors.Is(err, retrysafe.ErrLeaseLost) {
		panic(err)
	}
	return output{lost: err != nil}
}

func (c *randomCaller) claim(ctx context.Context, in input) output {
	got, err := c.store.Claim(ctx, retrysafe.ClaimParams{
		Key: key(in), Fingerprint: in.fingerprint, Owner: in.owner, Lease: time.Hour, Keep: keep, TakeOver: in.takeOver,
	})
	if err != nil {
		panic(err)
	}
	out := output{
		verdict: got.Verdict, fence: got.Lease.Fence, attempt: got.Record.Attempt,
		body: string(got.Record.Result.Body),
	}
	for _, s := range got.Record.Steps {
		out.steps = append(out.steps, s.Name)
	}
	if got.Verdict == retrysafe.Acquired {
		c.last = in
		c.last.fence = got.Lease.Fence
	}
	return out
}

var keep = retrysafe.Retention{}.WithDefaults()

func key(in input) retrysafe.Key { return retrysafe.Key{Scope: "history", ID: in.key} }

// doubleClaim sometimes gives a key to a second attempt that asks to take over, although the first is still working.
type doubleClaim struct{ retrysafe.Store }

func (d doubleClaim) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := d.Store.Claim(ctx, p)
	if c.Verdict == retrysafe.InFlight && p.Owner[0] < 32 {
		c.Verdict = retrysafe.Acquired
		c.Lease = retrysafe.Lease{Key: p.Key, Owner: p.Owner, Fence: c.Record.Fence + 1}
	}
	return c, err
}

// noFence completes under any lease that holds the key.
type noFence struct {
	retrysafe.Store
	leases sync.Map // key -> the last lease given out
}

func (n *noFence) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := n.Store.Claim(ctx, p)
	if c.Verdict == retrysafe.Acquired {
		n.leases.Store(p.Key, c.Lease)
	}
	return c, err
}

func (n *noFence) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, k retrysafe.Retention) error {
	if held, ok := n.leases.Load(l.Key); ok {
		l = held.(retrysafe.Lease)
	}
	return n.Store.Complete(ctx, l, r, k)
}

// forgetsSteps loses the saved steps in a take-over.
type forgetsSteps struct{ retrysafe.Store }

func (f forgetsSteps) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := f.Store.Claim(ctx, p)
	c.Record.Steps = nil
	return c, err
}
