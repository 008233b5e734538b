package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers/fiber"
)

// Goal 5: the cost that the middleware adds to a bare handler, next to the cost that fiber's middleware adds to a
// bare fiber handler. Handlers are called directly, on one goroutine, without a connection. net/http and fasthttp
// themselves differ by far more than the middlewares, so both are left out.

func middlewareGoal(ctx context.Context, r *run) error {
	in := middleware{Rounds: r.rounds(9, 3), Calls: 40_000, OursOnly: r.profiled != 0}
	got, err := call[middlewareFound](ctx, place{profile: r.profile()}, in)
	if err != nil {
		return err
	}
	targets := map[requestKind]struct{ cpu, allocs *figure.Target }{
		freshKey:    {figure.AtMost(3), figure.AtMost(16)},
		replayedKey: {figure.AtMost(2.5), figure.AtMost(8)},
		withoutKey:  {nil, figure.AtMost(0)},
	}
	for _, kind := range requestKinds() {
		our, their := got.Ours[kind], got.Fiber[kind]
		if kind != withoutKey { // without a key both costs are too small for a ratio
			r.add(ctx, figure.Ratio(fmt.Sprintf("CPU that the middleware adds ÷ fiber's, %s", kind),
				our.Micros, their.Micros, "µs").Want(targets[kind].cpu))
		}
		r.add(ctx, figure.New(fmt.Sprintf("CPU that the middleware adds, %s", kind), "µs", our.Micros...).
			Note("over %v µs of the bare handler", our.Bare).Note("garbage collection takes %v of it", our.GCMicros).
			Note("fiber's middleware adds %v to %v µs", their.Micros, their.Bare))
		r.add(ctx, figure.New(fmt.Sprintf("allocations that the middleware adds, %s", kind), "", our.Allocs.Median()).
			Want(targets[kind].allocs).Note("fiber's: %v", their.Allocs))
	}
	return nil
}

// requestKind is the kind of a request for a middleware.
type requestKind string

const (
	freshKey    requestKind = "fresh"
	replayedKey requestKind = "replay"
	withoutKey  requestKind = "no key"
)

func requestKinds() []requestKind { return []requestKind{freshKey, replayedKey, withoutKey} }

type middleware struct {
	Rounds, Calls int
	OursOnly      bool
}

type middlewareFound struct{ Ours, Fiber map[requestKind]overhead }

// overhead is the cost that a middleware adds to each call, one value per round, and the cost of the bare handler.
type overhead struct{ Micros, GCMicros, Allocs, Bare figure.Samples }

func (in middleware) play(context.Context, func(any) error) (any, error) {
	found := middlewareFound{Ours: map[requestKind]overhead{}, Fiber: map[requestKind]overhead{}}
	for range in.Rounds {
		if err := found.round(in); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// round starts with empty stores, so that each round collects the same amount of garbage.
func (f middlewareFound) round(in middleware) error {
	guarded, bare := newHandlers()
	guardedFiber, bareFiber := fiber.Guarded(), fiber.Bare()
	for _, kind := range requestKinds() {
		keys := keysOf(kind, in.Calls)
		if err := compareCosts(guarded, bare, kind, keys, f.Ours); err != nil {
			return fmt.Errorf("net/http, %s: %w", kind, err)
		}
		if in.OursOnly {
			continue
		}
		if err := compareCosts(guardedFiber, bareFiber, kind, keys, f.Fiber); err != nil {
			return fmt.Errorf("fiber, %s: %w", kind, err)
		}
	}
	return nil
}

// replayed is the number of keys in replays.
const replayed = 1000

// keysOf returns one key per call, made beforehand so that their cost is not measured.
func keysOf(kind requestKind, calls int) []string {
	keys := make([]string, calls)
	for i := range keys {
		switch kind {
		case freshKey:
			keys[i] = fmt.Sprintf("9d0f2c1a-0000-4000-8000-%012x", i)
		case replayedKey: // the fresh keys of this round
			keys[i] = fmt.Sprintf("9d0f2c1a-0000-4000-8000-%012x", i%replayed)
		}
	}
	return keys
}

// subject is a handler with a middleware, or without one.
type subject interface {
	// Serve serves one request, without a key if it is empty, and reports whether the answer was wrong.
	Serve(key string) error
	// Ran returns how often the handler's work has run.
	Ran() int
}

func compareCosts(guarded, bare subject, kind requestKind, keys []string, found map[requestKind]overhead) error {
	without, err := costOf(bare, keys, len(keys))
	if err != nil {
		return err
	}
	runs := len(keys)
	if kind == replayedKey {
		runs = 0
	}
	with, err := costOf(guarded, keys, runs)
	if err != nil {
		return err
	}
	o := found[kind]
	o.Micros = append(o.Micros, (with.nanos-without.nanos)/1e3)
	o.GCMicros = append(o.GCMicros, (with.gcNanos-without.gcNanos)/1e3)
	o.Allocs = append(o.Allocs, with.allocs-without.allocs)
	o.Bare = append(o.Bare, without.nanos/1e3)
	found[kind] = o
	return nil
}

// costOf measures the cost of a request. The work must have run exactly runs times.
func costOf(s subject, keys []string, runs int) (cost, error) {
	before := s.Ran()
	var err error
	c := measureCPU(len(keys), func(i int) { err = cmp.Or(err, s.Serve(keys[i])) })
	if got := s.Ran() - before; err == nil && got != runs {
		err = fmt.Errorf("the work ran %d times, not %d", got, runs)
	}
	return c, err
}
