package storetest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// wrong is a memstore with a fault.
type wrong struct {
	*memstore.Store
	passed *atomic.Int64
	claim  func(p *retrysafe.ClaimParams, c *retrysafe.Claim, before bool)
	lost   func(error) error
}

func (w wrong) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	w.claim(&p, nil, true)
	c, err := w.Store.Claim(ctx, p)
	w.claim(&p, &c, false)
	return c, err
}

func (w wrong) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	return w.lost(w.Store.Complete(ctx, l, r, keep))
}

func wrongHarness(
	claim func(p *retrysafe.ClaimParams, c *retrysafe.Claim, before bool), lost func(error) error,
) Harness {
	return Harness{
		Open: func(*testing.T) retrysafe.Store {
			passed := new(atomic.Int64)
			clock := func() time.Duration { return time.Duration(passed.Load()) }
			return wrong{memstore.New(memstore.Options{Clock: clock}), passed, claim, lost}
		},
		Age: func(_ *testing.T, s retrysafe.Store, d time.Duration) { s.(wrong).passed.Add(int64(d)) },
	}
}

func rightClaim(*retrysafe.ClaimParams, *retrysafe.Claim, bool) {}

func rightError(err error) error { return err }

// The walk finds each of these faults, and tells it in a few operations.
func TestWalkFindsFaults(t *testing.T) {
	for name, h := range map[string]Harness{
		"takes over unasked": wrongHarness(func(p *retrysafe.ClaimParams, _ *retrysafe.Claim, before bool) {
			p.TakeOver = p.TakeOver || before
		}, rightError),
		"forgets Keep": wrongHarness(func(p *retrysafe.ClaimParams, _ *retrysafe.Claim, _ bool) {
			p.Keep = retrysafe.Retention{}
		}, rightError),
		"ignores the fingerprint": wrongHarness(func(p *retrysafe.ClaimParams, _ *retrysafe.Claim, _ bool) {
			p.Fingerprint = "raw1:one"
		}, rightError),
		"hides steps": wrongHarness(func(_ *retrysafe.ClaimParams, c *retrysafe.Claim, before bool) {
			if !before {
				c.Record.Steps = nil
			}
		}, rightError),
		"fences with one number": wrongHarness(func(_ *retrysafe.ClaimParams, c *retrysafe.Claim, before bool) {
			if !before {
				c.Lease.Fence = min(c.Lease.Fence, 1)
			}
		}, rightError),
		"lets zombies complete": wrongHarness(rightClaim, func(error) error { return nil }),
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				ops := randomOps(seed)
				at, diff := play(t, h, ops)
				if diff == "" {
					continue
				}
				ops, diff = shortest(t, h, ops[:at+1], diff)
				if len(ops) > 6 {
					t.Errorf("the shortest history has %d operations, want at most 6:\n%s%s", len(ops), history(ops), diff)
				}
				return
			}
			t.Error("20 walks have not found it")
		})
	}
}

// A store in memory never differs from the model.
func TestWalkFindsNoFaultWhereNoneIs(t *testing.T) {
	h := wrongHarness(rightClaim, rightError)
	for seed := range uint64(100) {
		if at, diff := play(t, h, randomOps(seed)); diff != "" {
			t.Fatalf("seed %d, operation %d: %s", seed, at, diff)
		}
	}
}

// A walk visits what it is for: every verdict, every error, every state.
func TestWalkGoesEverywhere(t *testing.T) {
	seen := map[string]bool{}
	h := wrongHarness(func(_ *retrysafe.ClaimParams, c *retrysafe.Claim, before bool) {
		if !before {
			seen[c.Verdict.String()], seen[c.Record.State.String()] = true, true
			seen["attempt 3"] = seen["attempt 3"] || c.Record.Attempt == 3
			seen["steps"] = seen["steps"] || len(c.Record.Steps) > 1
		}
	}, func(err error) error {
		seen["lost"] = seen["lost"] || err != nil
		return err
	})
	for seed := range uint64(20) {
		play(t, h, randomOps(seed))
	}
	want := "acquired,in flight,done,abandoned,pending,released,succeeded,failed,attempt 3,steps,lost"
	for _, what := range strings.Split(want, ",") {
		if !seen[what] {
			t.Errorf("no walk has seen %q", what)
		}
	}
}

func TestDifference(t *testing.T) {
	full := retrysafe.Record{
		Key: retrysafe.Key{Scope: "s", ID: "k"}, Fingerprint: "f", State: retrysafe.Succeeded, Fence: 7, Attempt: 2,
		Result: result("answer"), Steps: []retrysafe.StepResult{step("a", "1")}, Age: time.Hour, EndedAge: time.Hour,
		ReplayLeft: time.Hour, KeyLeft: time.Hour, AuditLeft: time.Hour,
	}
	if d := difference(full, full, slack); d != "" {
		t.Errorf("a record differs from itself:%s", d)
	}
	for field, change := range map[string]func(r *retrysafe.Record){
		"Key":         func(r *retrysafe.Record) { r.Key.Scope = "S" },
		"Fingerprint": func(r *retrysafe.Record) { r.Fingerprint = "" },
		"State":       func(r *retrysafe.Record) { r.State = retrysafe.Failed },
		"Fence":       func(r *retrysafe.Record) { r.Fence++ },
		"Attempt":     func(r *retrysafe.Record) { r.Attempt++ },
		"Result":      func(r *retrysafe.Record) { r.Result.Omitted = true },
		"Steps":       func(r *retrysafe.Record) { r.Steps = nil },
		"Age":         func(r *retrysafe.Record) { r.Age += time.Minute },
		"EndedAge":    func(r *retrysafe.Record) { r.EndedAge -= time.Minute },
		"LeaseLeft":   func(r *retrysafe.Record) { r.LeaseLeft = time.Nanosecond },
		"ReplayLeft":  func(r *retrysafe.Record) { r.ReplayLeft = 0 },
		"KeyLeft":     func(r *retrysafe.Record) { r.KeyLeft = -time.Hour },
		"AuditLeft":   func(r *retrysafe.Record) { r.AuditLeft += time.Minute },
	} {
		changed := full
		change(&changed)
		if d := difference(changed, full, slack); !strings.Contains(d, "\n\t"+field+":") || strings.Count(d, "\n") != 1 {
			t.Errorf("%s: got %q", field, d)
		}
	}
}
