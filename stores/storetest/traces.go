package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/model"
)

// stepsOfWalk is how many steps a slow store takes for each of its Walks.
const stepsOfWalk = 1000

// cover returns the traces, which take a second to find.
var cover = sync.OnceValue(func() (traces [][]model.Action) {
	for _, s := range model.Stores {
		traces = append(traces, s.Cover()...)
	}
	return traces
})

// Traces replays traces of the model that together take every transition of small scopes: two owners, two leases, and
// what happens between them. It returns how the store first differs from the model; "" if it does not. A store with
// fewer Walks than the default is given some of the traces, chosen at random. Run calls it. The tests of a store that
// is broken on purpose show with it what the traces see.
func Traces(t *testing.T, h Harness) (difference string) {
	t.Helper()
	ops, diff := differingTrace(t, h)
	if diff == "" {
		return ""
	}
	return fmt.Sprintf("the store differs from the model after\n%s%s", history(ops), diff)
}

// differingTrace returns the first trace that the store and the model answer differently, and the difference.
func differingTrace(t *testing.T, h Harness) ([]op, string) {
	all, steps := slices.Clone(cover()), 0
	if h.Walks > 0 && h.Walks < defaultWalks {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	for i, trace := range all {
		if steps += len(trace); h.Walks > 0 && h.Walks < defaultWalks && steps > stepsOfWalk*h.Walks {
			all = all[:i+1]
			break
		}
	}
	t.Logf("%d traces with %d steps", len(all), steps)
	trace, diff := playTogether(t, h, all)
	ops := make([]op, len(trace))
	for i, a := range trace {
		ops[i].Action = a
	}
	return ops, diff
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
func playTogether(t *testing.T, h Harness, all [][]model.Action) ([]model.Action, string) {
	p := newPlayer(t, h)
	tracks := make([]*track, len(all))
	for i, trace := range all {
		tracks[i] = &track{playedKey: p.key(fmt.Sprint(i)), trace: trace}
	}
	for {
		inParallel(crowd, tracks, (*track).run)
		next := map[string]model.Action{}
		for _, k := range tracks {
			if k.diff != "" {
				return k.trace[:k.at+1], k.diff
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
			return []model.Action{event}, d
		}
		for _, k := range tracks {
			if k.at < len(k.trace) && k.trace[k.at].Verb == event.Verb {
				k.at++
			}
		}
	}
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
