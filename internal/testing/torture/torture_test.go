package torture_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestMain(m *testing.M) { torture.Main(m, subject()) }

// subject is a memstore that several processes use.
func subject() torture.Subject {
	return torture.Subject{
		Place: torture.Memory,
		Open: func(_ context.Context, place, mutant string) (retrysafe.Store, error) {
			s, err := torture.OpenMemory(place)
			if err != nil || mutant == "" {
				return s, err
			}
			return mutants()[mutant](s), nil
		},
		Mutants: torture.Names(mutants()),
		RaceMutants: []string{
			"claim given twice", "complete saves nothing", "complete changes the result", "fence of another claim",
		},
	}
}

func TestSoakTorture(t *testing.T) { subject().Torture(t, soak.Times(t, 30)) }
func TestSoakRace(t *testing.T)    { subject().Race(t, soak.Times(t, 1000)) }
func TestSeesMutants(t *testing.T) { subject().SeesMutants(t, len(mutants())) }

// The judge alone sees each mutant that gives a wrong answer: make test looks at three, make soak at all.
func TestSoakJudgeSeesMutants(t *testing.T) {
	wrong := slices.DeleteFunc(torture.Names(mutants()), func(name string) bool { return name == "error without a reason" })
	for _, name := range wrong[:min(soak.Times(t, 3), len(wrong))] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			torture.JudgeSees(t, subject(), name)
		})
	}
}

// Each mutant is seen by traces of the model alone, too, which need no second process.
func TestTracesSeeMutants(t *testing.T) {
	passed := new(atomic.Int64)
	clock := func() time.Duration { return time.Duration(passed.Load()) }
	torture.TracesSee(t, len(mutants()), storetest.Harness{
		Open: func(*testing.T) retrysafe.Store { return memstore.New(memstore.Options{Clock: clock}) },
		Age:  func(_ *testing.T, _ retrysafe.Store, d time.Duration) { passed.Add(int64(d)) },
	}, torture.Names(mutants()), nil, func(s retrysafe.Store, mutant string) (retrysafe.Store, error) {
		return mutants()[mutant](s), nil
	})
}

// mutants break a store in one place each, in one of a few calls. Each is for one check.
func mutants() map[string]func(retrysafe.Store) retrysafe.Store {
	mutant := func(m broken) func(retrysafe.Store) retrysafe.Store {
		return func(s retrysafe.Store) retrysafe.Store { m.Store = s; return m }
	}
	return map[string]func(retrysafe.Store) retrysafe.Store{
		"claim given twice": mutant(broken{claim: func(p retrysafe.ClaimParams, c *retrysafe.Claim) {
			if c.Verdict == retrysafe.InFlight {
				c.Verdict, c.Lease = retrysafe.Acquired, retrysafe.Lease{Key: p.Key, Owner: p.Owner, Fence: c.Record.Fence}
			}
		}}),
		"claim before its time": mutant(broken{claim: func(p retrysafe.ClaimParams, c *retrysafe.Claim) {
			if c.Verdict == retrysafe.Done || c.Verdict == retrysafe.InFlight {
				c.Record.Fence++
				c.Verdict, c.Lease = retrysafe.Acquired, retrysafe.Lease{Key: p.Key, Owner: p.Owner, Fence: c.Record.Fence}
			}
		}}),
		"fence of another claim": mutant(broken{claim: func(_ retrysafe.ClaimParams, c *retrysafe.Claim) {
			if c.Verdict == retrysafe.Acquired {
				c.Record.Fence--
				c.Lease.Fence--
			}
		}}),
		"steps forgotten": mutant(broken{claim: func(_ retrysafe.ClaimParams, c *retrysafe.Claim) {
			c.Record.Steps = nil
		}}),
		"lease taken for over": mutant(broken{claim: func(_ retrysafe.ClaimParams, c *retrysafe.Claim) {
			if c.Verdict == retrysafe.InFlight {
				c.Verdict = retrysafe.Abandoned
			}
		}}),
		"lease too short":             mutant(broken{shorter: 3}),
		"abandoned key forgotten":     mutant(broken{forgets: true}),
		"extend does nothing":         mutant(broken{skips: "extend"}),
		"lease lost without a reason": mutant(broken{loses: true}),
		"error without a reason":      mutant(broken{fails: true}),
		"lost lease extended":         mutant(broken{acknowledges: "extend"}),
		"lost lease completed":        mutant(broken{acknowledges: "complete"}),
		"lost lease checkpointed":     mutant(broken{acknowledges: "checkpoint"}),
		"complete saves nothing":      mutant(broken{skips: "complete"}),
		"checkpoint saves nothing":    mutant(broken{skips: "checkpoint"}),
		"complete changes the result": mutant(broken{claim: func(_ retrysafe.ClaimParams, c *retrysafe.Claim) {
			c.Record.Result.Body = append(c.Record.Result.Body, " again"...)
		}}),
	}
}

// broken is a store that breaks the contract in the ways that are set, in one of four calls.
type broken struct {
	retrysafe.Store
	claim               func(retrysafe.ClaimParams, *retrysafe.Claim) // changes the answer
	shorter             time.Duration                                 // a lease is so many times shorter
	skips, acknowledges string                                        // a call
	loses, fails        bool
	forgets             bool // a claim whose lease has ended
}

func now() bool { return rand.IntN(4) == 0 }

func (b broken) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if b.shorter > 0 && now() {
		p.Lease /= b.shorter
	}
	if b.forgets {
		p.Keep = retrysafe.Retention{Replay: 1, Key: 1, Audit: 1}
	}
	c, err := b.Store.Claim(ctx, p)
	if b.claim != nil && err == nil && now() {
		b.claim(p, &c)
	}
	return c, err
}

func (b broken) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	if b.loses && now() {
		return retrysafe.ErrLeaseLost
	}
	return b.do("extend", func() error { return b.Store.Extend(ctx, l, d) })
}

func (b broken) Checkpoint(ctx context.Context, l retrysafe.Lease, s retrysafe.StepResult) error {
	return b.do("checkpoint", func() error { return b.Store.Checkpoint(ctx, l, s) })
}

func (b broken) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, k retrysafe.Retention) error {
	return b.do("complete", func() error { return b.Store.Complete(ctx, l, r, k) })
}

func (b broken) do(call string, f func() error) error {
	if b.skips == call && now() {
		return nil
	}
	if b.fails && now() {
		return errors.New("broken")
	}
	err := f()
	if b.acknowledges == call {
		return nil
	}
	return err
}
