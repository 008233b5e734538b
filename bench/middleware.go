package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
)

// Goal 5: the cost that the middleware adds to a bare handler, next to the cost that fiber's middleware adds to a
// bare fiber handler. Handlers are called directly, on one goroutine, without a connection. net/http and fasthttp
// themselves differ by far more than the middlewares, so both are left out.

func middlewareGoal(ctx context.Context, r *run) error {
	in := middlewareAsked{Rounds: r.rounds(9, 3), Calls: 40_000, OursOnly: r.profile(5) != ""}
	got, err := callRole[middlewareFound](ctx, disk.Disk{}, "", r.profile(5), "middleware", in)
	if err != nil {
		return err
	}
	targets := map[requestKind]struct{ cpu, allocs *figure.Target }{
		freshKey:    {figure.AtMost(3), figure.AtMost(16)},
		replayedKey: {figure.AtMost(2.5), figure.AtMost(8)},
		withoutKey:  {nil, figure.AtMost(0)},
	}
	for _, kind := range requestKinds() {
		ours, fiber := got.Ours[kind], got.Fiber[kind]
		if kind != withoutKey { // without a key both costs are too small for a ratio
			r.add(ctx, figure.Figure{
				Goal: 5, Unit: "x", What: fmt.Sprintf("CPU that the middleware adds ÷ fiber's, %s", kind),
				Samples: ratios(ours.Micros, fiber.Micros), Target: targets[kind].cpu,
			})
		}
		r.add(ctx, figure.Figure{
			Goal: 5, Unit: "µs", What: fmt.Sprintf("CPU that the middleware adds, %s", kind), Samples: ours.Micros,
			Aside: fmt.Sprintf("over %s µs of the bare handler; garbage collection takes %s of it; fiber's middleware adds "+
				"%s to %s µs", figure.Short(figure.Median(ours.Bare)), figure.Short(figure.Median(ours.GCMicros)),
				figure.Short(figure.Median(fiber.Micros)), figure.Short(figure.Median(fiber.Bare))),
		})
		r.add(ctx, figure.Figure{
			Goal: 5, What: fmt.Sprintf("allocations that the middleware adds, %s", kind),
			Samples: []float64{figure.Median(ours.Allocs)}, Target: targets[kind].allocs,
			Aside: fmt.Sprintf("fiber's: %s", figure.Short(figure.Median(fiber.Allocs))),
		})
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

type middlewareAsked struct {
	Rounds, Calls int
	OursOnly      bool
}

type middlewareFound struct{ Ours, Fiber map[requestKind]overhead }

// overhead is the cost that a middleware adds to each call, one value per round, and the cost of the bare handler.
type overhead struct{ Micros, GCMicros, Allocs, Bare []float64 }

func middlewareRole(_ context.Context, text json.RawMessage, _ func(any) error) (any, error) {
	var in middlewareAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	found := middlewareFound{Ours: map[requestKind]overhead{}, Fiber: map[requestKind]overhead{}}
	for range in.Rounds {
		if err := found.round(in); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// round starts with empty stores, so that each round collects the same amount of garbage.
func (f middlewareFound) round(in middlewareAsked) error {
	ours, err := newHTTPSubjects()
	if err != nil {
		return err
	}
	fiber := newFiberSubjects()
	for _, kind := range requestKinds() {
		keys := keysOf(kind, in.Calls)
		if err := compareCosts(ours, kind, keys, f.Ours); err != nil {
			return fmt.Errorf("net/http, %s: %w", kind, err)
		}
		if in.OursOnly {
			continue
		}
		if err := compareCosts(fiber, kind, keys, f.Fiber); err != nil {
			return fmt.Errorf("fiber, %s: %w", kind, err)
		}
	}
	return nil
}

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

// subject serves one request and reports whether its answer was correct. An empty key means none.
type subject interface {
	serve(key string) error
	// ran returns how often the handler's work has run.
	ran() int
}

// subjects are a handler with a middleware and one without.
type subjects struct{ guarded, bare subject }

func compareCosts(s subjects, kind requestKind, keys []string, found map[requestKind]overhead) error {
	bare, err := costOf(s.bare, keys, len(keys))
	if err != nil {
		return err
	}
	runs := len(keys)
	if kind == replayedKey {
		runs = 0
	}
	guarded, err := costOf(s.guarded, keys, runs)
	if err != nil {
		return err
	}
	o := found[kind]
	o.Micros = append(o.Micros, (guarded.nanos-bare.nanos)/1e3)
	o.GCMicros = append(o.GCMicros, (guarded.gcNanos-bare.gcNanos)/1e3)
	o.Allocs = append(o.Allocs, guarded.allocs-bare.allocs)
	o.Bare = append(o.Bare, bare.nanos/1e3)
	found[kind] = o
	return nil
}

// costOf measures the cost of a request. The work must have run exactly runs times.
func costOf(s subject, keys []string, runs int) (cost, error) {
	before := s.ran()
	var err error
	c := measureCPU(len(keys), func(i int) { err = firstOf(err, s.serve(keys[i])) })
	if got := s.ran() - before; err == nil && got != runs {
		err = fmt.Errorf("the work ran %d times, not %d", got, runs)
	}
	return c, err
}
