package main

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Goal 6: heartbeats cost nothing for work that ends within a third of its lease. A call cannot be made without them,
// so their possible costs are measured: goroutines and store calls, exactly; and their timer, relative to the whole
// call.

func heartbeatGoal(ctx context.Context, r *run) error {
	got, err := call[heartbeatFound](ctx, place{profile: r.profile()}, heartbeat{Rounds: r.rounds(9, 3), Calls: 20_000})
	if err != nil {
		return err
	}
	r.add(ctx, figure.New("goroutines per Guard.Do in flight", "", got.Goroutines).Want(figure.AtMost(0)).
		Note("beside its caller's own").Note("%d calls in flight", inFlight))
	r.add(ctx, figure.New("store calls per Guard.Do beside the pair", "", got.ExtraCalls).Want(figure.AtMost(0)))
	r.add(ctx, figure.New("CPU: timer set and stopped ÷ Guard.Do", "%", got.Timer.Over(got.Do).Times(100)...).
		Note("timer %v ns, set beside %d others", got.Timer, inFlight).
		Note("Guard.Do on memstore %v ns, its claim and completion alone %v ns", got.Do, got.Direct).
		Note("allocations %.0f and %.0f", got.DoAllocs, got.DirectAllocs))
	return nil
}

// inFlight is how many calls run at once while goroutines are counted.
const inFlight = 1000

type heartbeat struct{ Rounds, Calls int }

// heartbeatFound holds exact counts per call, and CPU nanoseconds per call for each round.
type heartbeatFound struct {
	Goroutines, ExtraCalls float64
	Timer, Do, Direct      figure.Samples
	DoAllocs, DirectAllocs float64
}

func (in heartbeat) play(ctx context.Context, _ func(any) error) (any, error) {
	var found heartbeatFound
	var err error
	if found.Goroutines, found.ExtraCalls, err = countInFlight(ctx); err != nil {
		return nil, err
	}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1})
	direct := memstore.New(memstore.Options{})
	result := peers.Result()
	work := func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) { return result, nil }
	for range in.Rounds {
		do := measureCPU(in.Calls, func(int) {
			_, doErr := guard.Do(ctx, freshRequest(), work)
			err = cmp.Or(err, doErr)
		})
		pair := measureCPU(in.Calls, func(int) {
			err = cmp.Or(err, storePair(ctx, direct, result))
		})
		found.Do, found.Direct = append(found.Do, do.nanos), append(found.Direct, pair.nanos)
		found.Timer = append(found.Timer, timerCost(in.Calls))
		found.DoAllocs, found.DirectAllocs = do.allocs, pair.allocs
	}
	return found, err
}

// timerCost measures the CPU time of setting and stopping a timer while others are pending.
func timerCost(n int) float64 {
	var others []*time.Timer
	for i := range inFlight {
		others = append(others, time.AfterFunc(10*time.Second+time.Duration(i)*time.Millisecond, func() {}))
	}
	cost := measureCPU(n, func(int) { time.AfterFunc(10*time.Second, func() {}).Stop() })
	for _, t := range others {
		t.Stop()
	}
	return cost.nanos
}

// countInFlight counts goroutines while many calls are running, and the store calls that they made at the end.
func countInFlight(ctx context.Context) (goroutines, extraCalls float64, err error) {
	store := &countingStore{Store: memstore.New(memstore.Options{})}
	guard := retrysafe.New(store, retrysafe.Options{SweepEvery: -1})
	var started, ended sync.WaitGroup
	started.Add(inFlight)
	release := make(chan struct{})
	before := runtime.NumGoroutine()
	errs := make(chan error, inFlight)
	for range inFlight {
		ended.Go(func() {
			_, err := guard.Do(ctx, freshRequest(), func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
				started.Done()
				<-release
				return retrysafe.Result{}, nil
			})
			errs <- err
		})
	}
	started.Wait()
	during := runtime.NumGoroutine()
	close(release)
	ended.Wait()
	for range inFlight {
		err = cmp.Or(err, <-errs)
	}
	extra := store.calls.Load() - 2*inFlight
	perCall := (during - before - inFlight) / inFlight // rounded, because a few goroutines of the runtime come and go
	return float64(perCall), float64(extra) / inFlight, err
}

func freshRequest() retrysafe.Request {
	p := freshParams()
	return retrysafe.Request{Key: p.Key, Fingerprint: p.Fingerprint}
}

// countingStore counts the calls that reach a store.
type countingStore struct {
	retrysafe.Store
	calls atomic.Int64
}

func (s *countingStore) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	s.calls.Add(1)
	return s.Store.Claim(ctx, p)
}

func (s *countingStore) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	s.calls.Add(1)
	return s.Store.Extend(ctx, l, d)
}

func (s *countingStore) Checkpoint(ctx context.Context, l retrysafe.Lease, r retrysafe.StepResult) error {
	s.calls.Add(1)
	return s.Store.Checkpoint(ctx, l, r)
}

func (s *countingStore) Complete(
	ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention,
) error {
	s.calls.Add(1)
	return s.Store.Complete(ctx, l, r, keep)
}

func (s *countingStore) Release(ctx context.Context, l retrysafe.Lease) error {
	s.calls.Add(1)
	return s.Store.Release(ctx, l)
}
