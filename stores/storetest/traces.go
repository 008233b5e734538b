package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/model"
)

const (
	// stepsOfWalk is how many steps of traces a store takes for each of its Walks.
	stepsOfWalk = 200
	// batch is how many traces are played side by side.
	batch = 100
	// patienceOfTraces is less than the four minutes and forty seconds between any deadline and the moments when time
	// passes.
	patienceOfTraces = 4 * time.Minute
)

// Traces replays traces of the model that together take every transition of small scopes: two owners, two leases, and
// what happens between them. It returns how the store first differs from the model; "" if it does not. Run replays a
// random part of them, as long as Walks says. The tests of a store that is broken on purpose show with Traces what they
// see.
func Traces(t *testing.T, h Harness) (difference string) {
	t.Helper()
	ops, diff := differingTrace(t, h, math.MaxInt)
	if diff == "" {
		return ""
	}
	return fmt.Sprintf("the store differs from the model after\n%s%s", history(ops), diff)
}

// differingTrace returns a trace that the store and the model answer differently, and the difference. It plays traces
// with at least so many steps.
func differingTrace(t *testing.T, h Harness, least int) ([]op, string) {
	var some [][]model.Action // a batch
	traces, steps := 0, 0
	for trace := range model.Cover(rand.New(rand.NewPCG(rand.Uint64(), 0))) {
		traces, steps, some = traces+1, steps+len(trace), append(some, trace)
		if steps >= least {
			break
		}
		if len(some) < batch {
			continue
		}
		if ops, diff := playTogether(t, h, some); diff != "" {
			return ops, diff
		}
		some = nil
	}
	t.Logf("%d traces with %d steps", traces, steps)
	return playTogether(t, h, some)
}

// track is a trace that is being played, with a key of its own.
type track struct {
	*playedKey
	trace []model.Action
	at    int
	diff  string
}

// playTogether plays traces with a key each, side by side, so that time passes for all of them at once. It returns the
// beginning of the first one that the store and the model answer differently, and the difference.
func playTogether(t *testing.T, h Harness, all [][]model.Action) ([]op, string) {
	p := newPlayer(t, h, patienceOfTraces)
	tracks := make([]*track, len(all))
	for i, trace := range all {
		tracks[i] = &track{playedKey: p.key(fmt.Sprint(i)), trace: trace}
	}
	for {
		inParallel(crowd, tracks, (*track).run)
		if p.late() {
			return nil, ""
		}
		next := map[string]model.Action{}
		for _, k := range tracks {
			if k.diff != "" {
				return opsOf(k.trace[:k.at+1]), k.diff
			}
			if k.at < len(k.trace) {
				next[k.trace[k.at].Verb] = k.trace[k.at]
			}
		}
		// Sweeps come first, because time passes for all.
		event, ok := next["sweep"]
		if !ok {
			if event, ok = next["pass"]; !ok {
				return nil, ""
			}
		}
		if d := p.event(event); d != "" {
			return opsOf([]model.Action{event}), d
		}
		for _, k := range tracks {
			if k.at < len(k.trace) && k.trace[k.at].Verb == event.Verb {
				k.at++
			}
		}
	}
}

// opsOf returns a trace as a walk with one key.
func opsOf(trace []model.Action) []op {
	ops := make([]op, len(trace))
	for i, a := range trace {
		ops[i].Action = a
	}
	return ops
}

// run makes calls until the next event.
func (k *track) run() {
	for ; k.at < len(k.trace); k.at++ {
		a := k.trace[k.at]
		if a.Verb == "pass" || a.Verb == "sweep" {
			break
		}
		if k.diff = k.call(a); k.diff != "" {
			return
		}
	}
	if k.diff = k.inspect(); k.diff != "" {
		k.at = min(k.at, len(k.trace)-1)
	}
}

// inParallel calls do for each of the tracks, n at once.
func inParallel(n int, tracks []*track, do func(*track)) {
	queue := make(chan *track, len(tracks))
	for _, k := range tracks {
		queue <- k
	}
	close(queue)
	together(n, func(int) {
		for k := range queue {
			do(k)
		}
	})
}
