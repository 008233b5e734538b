package retrysafe

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/lazyctx"
)

// engine is the part that a Guard shares with the Guards that With and WithObserver make of it.
type engine struct {
	store        Store
	watcher      Watcher   // nil: waiters poll
	observers    observers // those of New: of background sweeps
	storeTimeout time.Duration
	childSecret  []byte // nil: none
	waiting      waiting
	background   background
	unsaved      unsaved
	sweeps       sweeps
	sightings    sightings

	gate    sync.RWMutex
	closed  bool
	running sync.WaitGroup
}

func newEngine(s Store, o Options) *engine {
	e := &engine{
		store:        s,
		storeTimeout: orElse(o.StoreTimeout, 5*time.Second),
		childSecret:  bytes.Clone(o.ChildSecret),
		background:   newBackground(),
		unsaved:      unsaved{limit: orElse(o.MaxUnsaved, 64<<20)},
		sweeps:       sweeps{every: orElse(o.SweepEvery, time.Minute)},
	}
	if o.Observer != nil {
		e.observers = observers{o.Observer}
	}
	e.watcher, _ = As[Watcher](s)
	e.sweeps.sweeper, _ = As[Sweeper](s)
	e.sightings.keeper, _ = As[SightingKeeper](s)
	return e
}

// Shutdown refuses new requests with ErrShutdown, and returns nil when the running ones have ended and everything that
// is being saved in the background is saved. If ctx ends before, Shutdown stops saving in the background and returns
// the error of ctx; the keys in question become abandoned. Call it before closing the store. It may be called again.
func (e *engine) Shutdown(ctx context.Context) error {
	e.gate.Lock()
	e.closed = true
	e.gate.Unlock()
	e.sweeps.stop()
	idle := make(chan struct{})
	go func() {
		e.running.Wait()
		e.background.wait()
		close(idle)
	}()
	defer e.stopSightings(ctx)
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		e.background.stop()
		e.dropUndos()
		return fmt.Errorf("retrysafe: Shutdown gave up on operations that still run or are being saved, whose keys become "+
			"abandoned; stop the server or the consumers first, then call Shutdown, then close the store: %w", ctx.Err())
	}
}

func (e *engine) enter() bool {
	e.gate.RLock()
	defer e.gate.RUnlock()
	if e.closed {
		return false
	}
	e.running.Add(1)
	e.sweeps.maybe(e)
	return true
}

func (e *engine) isClosed() bool {
	e.gate.RLock()
	defer e.gate.RUnlock()
	return e.closed
}

func (e *engine) leave() { e.running.Done() }

// newCallContext returns the context of one call to the store.
func newCallContext(ctx context.Context, limit time.Duration) *lazyctx.Context {
	return lazyctx.WithDeadline(ctx, time.Now().Add(limit))
}

// sweeps starts background sweeps when requests come in, so that no goroutine has to run all the time.
type sweeps struct {
	sweeper Sweeper
	every   time.Duration
	waiting atomic.Bool // until every has passed since the last began
	stopped atomic.Bool
}

const sweepLimit = 500

// maybe starts a sweep if none was started within the last interval.
func (s *sweeps) maybe(e *engine) {
	if s.sweeper == nil || s.every < 0 || s.waiting.Load() || s.stopped.Load() || !s.waiting.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(s.every, func() { s.waiting.Store(false) })
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		s.sweep(e)
	}()
}

// sweep makes bounded passes until nothing is due.
func (s *sweeps) sweep(e *engine) {
	began, total := time.Now(), 0
	var err error
	for n := sweepLimit; n >= sweepLimit && err == nil && !s.stopped.Load(); total += n {
		ctx := newCallContext(context.Background(), e.storeTimeout)
		n, err = s.sweeper.Sweep(ctx, sweepLimit)
		ctx.End(nil)
	}
	e.observers.Observe(context.Background(), Event{Kind: SweepEnded, Count: total, Took: time.Since(began), Err: err})
}

func (s *sweeps) stop() { s.stopped.Store(true) }
