package otelsafe_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/abilities"
	"github.com/retrysafe/retrysafe/observe/otelsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func calls(call, outcome string) string {
	return "retrysafe.store.call.duration{call=" + call + ",outcome=" + outcome + "}"
}

// An instrumented store keeps the contract of the one underneath.
//
// Seen to fail with the error of Complete not passed on.
func TestInstrumentKeepsTheContract(t *testing.T) {
	m := newMeter(t)
	var passed atomic.Int64 // on the clocks of all of them
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) + time.Duration(passed.Load()) }
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store {
			base := memstore.New(memstore.Options{Clock: clock})
			s, err := otelsafe.Instrument(base, otelsafe.Options{MeterProvider: m.provider})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Age:   func(_ *testing.T, _ retrysafe.Store, d time.Duration) { passed.Add(int64(d)) },
		Walks: 1,
	})
}

// Seen to fail with each of the cases of as taken out.
func TestInstrumentPassesOnWhatTheStoreCan(t *testing.T) {
	m := memstore.New(memstore.Options{})
	type (
		store     struct{ retrysafe.Store }
		sweeper   struct{ retrysafe.Sweeper }
		watcher   struct{ retrysafe.Watcher }
		inspector struct{ retrysafe.Inspector }
	)
	s, sw, wa, in := store{m}, sweeper{m}, watcher{m}, inspector{m}
	for _, base := range []retrysafe.Store{
		s,
		struct {
			store
			sweeper
		}{s, sw},
		struct {
			store
			watcher
		}{s, wa},
		struct {
			store
			inspector
		}{s, in},
		struct {
			store
			sweeper
			watcher
		}{s, sw, wa},
		struct {
			store
			sweeper
			inspector
		}{s, sw, in},
		struct {
			store
			watcher
			inspector
		}{s, wa, in},
		struct {
			store
			sweeper
			watcher
			inspector
		}{s, sw, wa, in},
	} {
		measured, err := otelsafe.Instrument(base, otelsafe.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := can(measured), can(base); got != want {
			t.Errorf("got a store that %s, want one that %s", got, want)
		}
	}
}

// What is not measured is found in the store that is. Seen to fail with a type assertion for As in retrysafe.Walk.
func TestInstrumentHidesNoAbility(t *testing.T) {
	measured := func(inner retrysafe.Store) retrysafe.Store {
		s, err := otelsafe.Instrument(inner, otelsafe.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	abilities.Check(t, measured)
	abilities.Check(t, func(inner retrysafe.Store) retrysafe.Store {
		s, err := shardstore.New([]shardstore.Shard{{Name: "a", Store: measured(inner)}}, shardstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func can(s retrysafe.Store) string {
	_, sweeps := s.(retrysafe.Sweeper)
	_, watches := s.(retrysafe.Watcher)
	_, inspects := s.(retrysafe.Inspector)
	return fmt.Sprintf("sweeps: %t, watches: %t, inspects: %t", sweeps, watches, inspects)
}

// slow takes its time for each call.
type slow struct {
	retrysafe.Store
	takes time.Duration
}

func (s slow) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	time.Sleep(s.takes)
	return s.Store.Claim(ctx, p)
}

// Seen to fail with the outcome of each call left out.
func TestCallsAreTimedByOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := newMeter(t), t.Context()
		base := memstore.New(memstore.Options{MaxKeys: 1})
		s, err := otelsafe.Instrument(slow{base, 2 * time.Second}, otelsafe.Options{MeterProvider: m.provider})
		if err != nil {
			t.Fatal(err)
		}
		p := retrysafe.ClaimParams{Key: request.Key, Owner: retrysafe.NewOwner(), Lease: time.Minute}
		claim := func(p retrysafe.ClaimParams) retrysafe.Lease {
			c, _ := s.Claim(ctx, p)
			return c.Lease
		}
		another := p
		another.Owner = retrysafe.NewOwner()
		l := claim(p)
		claim(another)
		full := another
		full.Key.ID = "another"
		claim(full)
		_ = s.Extend(ctx, l, 0)
		claim(another)
		_ = s.Checkpoint(ctx, l, retrysafe.StepResult{Name: "a"})
		zombie := l
		zombie.Fence++
		_ = s.Extend(ctx, zombie, time.Minute)
		_ = s.Checkpoint(ctx, zombie, retrysafe.StepResult{Name: "a"})
		_ = s.Complete(ctx, zombie, retrysafe.Result{}, retrysafe.Retention{})
		_ = s.Release(ctx, zombie)
		_ = s.Complete(ctx, l, retrysafe.Result{}, retrysafe.Retention{})
		claim(another)
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		_ = s.Release(canceled, l)
		m.want(map[string]float64{
			calls("claim", "acquired"):                                   1,
			calls("claim", "in_flight"):                                  1,
			calls("claim", "full"):                                       1,
			calls("claim", "abandoned"):                                  1,
			calls("claim", "done"):                                       1,
			"retrysafe.store.call.duration.sum{call=claim,outcome=done}": 2,
			calls("extend", "succeeded"):                                 1,
			calls("extend", "lease_lost"):                                1,
			calls("checkpoint", "succeeded"):                             1,
			calls("checkpoint", "lease_lost"):                            1,
			calls("complete", "succeeded"):                               1,
			calls("complete", "lease_lost"):                              1,
			calls("release", "lease_lost"):                               1,
			calls("release", "canceled"):                                 1,
		})
	})
}

// Ten that wait for one key are one wait.
//
// Seen to fail with the record in waits.Watch taken out, and with it made when the watch begins.
func TestWaitsAreTimed(t *testing.T) {
	bubble(t, retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Minute)}, func(k *kit) {
		k.do(request, nil, func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			for range 10 {
				go k.do(request, nil, answer)
			}
			time.Sleep(7 * time.Second)
			return answer(ctx, a)
		})
		synctest.Wait()
		k.metrics.want(map[string]float64{
			"retrysafe.wait.duration": 1, "retrysafe.wait.duration.sum": 7, requests("hit"): 10,
		})
	})
}
