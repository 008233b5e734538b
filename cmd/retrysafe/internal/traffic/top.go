package traffic

import (
	"cmp"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/proxy"
)

const (
	// counters is how many keys, and how many callers, are counted at a time.
	counters = 1000
	// served is how many of them are shown at most.
	served = 100
)

// recent counts in two windows of windowSeconds each. When the present one is over it becomes the one before, and what
// was before is forgotten: so the two have the last five to ten minutes.
type recent[K comparable] struct {
	present, before *sketch[K]
	begins          int64 // second in which the present window began
}

func newRecent[K comparable]() recent[K] {
	return recent[K]{present: newSketch[K](counters), before: newSketch[K](counters)}
}

// add counts a request. See sketch.add.
func (r *recent[K]) add(k K, own func(K) K, now int64, o outcome, route string) {
	r.advance(now)
	r.present.add(k, own, o, route)
}

// advance goes on to the window of a second.
func (r *recent[K]) advance(now int64) {
	passed := max(0, (now-r.begins)/windowSeconds)
	r.begins += passed * windowSeconds
	for range min(passed, 2) {
		r.present, r.before = r.before, r.present
		r.present.reset()
	}
}

// from is the first second that is counted.
func (r *recent[K]) from() int64 { return max(0, r.begins-windowSeconds) }

// copied is a sketch at one moment.
type copied[K comparable] struct {
	all    []counter[K]
	missed uint64
}

// read returns copies of both windows, so that they can be added without the lock.
func (r *recent[K]) read(now int64) (windows [2]copied[K]) {
	r.advance(now)
	for i, s := range []*sketch[K]{r.before, r.present} {
		windows[i].missed = s.missed()
		windows[i].all = make([]counter[K], len(s.heap))
		for n, c := range s.heap {
			windows[i].all[n] = *c
		}
	}
	return windows
}

// added returns the counters of both windows as one, those with most requests that were seen first.
func added[K comparable](windows [2]copied[K]) []counter[K] {
	place, all := map[K]int{}, []counter[K]{}
	for w, window := range windows {
		for _, c := range window.all {
			at, ok := place[c.key]
			if !ok {
				at = len(all)
				place[c.key] = at
				all = append(all, counter[K]{key: c.key, over: windows[1-w].missed})
			}
			sum := &all[at]
			if ok {
				sum.over -= window.missed // it is not missing here
			}
			sum.over, sum.seen, sum.route = sum.over+c.over, sum.seen.plus(c.seen), c.route
		}
	}
	slices.SortStableFunc(all, func(a, b counter[K]) int {
		return cmp.Or(cmp.Compare(b.seen.All(), a.seen.All()), cmp.Compare(b.over, a.over))
	})
	return all
}

// countTop counts the key and the caller of a request. A request that was refused before a key was found has none, and
// if its caller is not known either, or all callers are one, there is nothing to count.
func (m *Meter) countTop(e proxy.Event, route string, now int64, o outcome) {
	if e.Kind != 0 {
		m.keys.add(e.Key, func(d retrysafe.Digest) retrysafe.Digest { return d }, now, o, route)
	}
	if e.Scope != "" { // a refused one may be longer than that of a key
		m.callers.add(e.Scope[:min(len(e.Scope), retrysafe.MaxKeyBytes)], strings.Clone, now, o, route)
	}
}

// Top returns the keys and the callers with most requests, and of how many seconds. A key with a single request is not
// hot, and left out.
func (m *Meter) Top() (keys, callers []Top, seconds int64) {
	m.mu.Lock()
	now := m.second()
	ofKeys, ofCallers := m.keys.read(now), m.callers.read(now)
	seconds = max(1, now-m.keys.from())
	m.mu.Unlock()
	keys, callers = []Top{}, []Top{}
	for _, c := range added(ofKeys) {
		if len(keys) < served && c.seen.All() > 1 {
			keys = append(keys, Top{c.key.String(), "", countsOf(c.seen), int64(c.over), c.route})
		}
	}
	for _, c := range added(ofCallers) {
		if len(callers) < served {
			callers = append(callers, Top{"", c.key, countsOf(c.seen), int64(c.over), c.route})
		}
	}
	return keys, callers, seconds
}
