package dashboard

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// Bounds of what Traffic keeps: a few kilobytes for each route.
const (
	trafficWindow = 300 // seconds
	maxRoutes     = 200
	otherRoutes   = "all further routes"
)

// outcome is what became of a request with a key.
type outcome int

const (
	ran      outcome = iota // the operation ran
	replayed                // the answer of an earlier attempt
	refused
	unknown // the operation may or may not have run
	outcomes
)

// Tally counts requests by outcome.
type Tally [outcomes]uint64

// Traffic counts what became of the requests of a proxy: per second for the last minutes, and since it began. Its
// memory is bounded, and it holds its lock for nanoseconds.
type Traffic struct {
	began time.Time

	mu     sync.Mutex
	routes map[string]*routeTraffic
}

type routeTraffic struct {
	total  Tally
	newest int64 // the second of the newest entry of the ring
	ring   [trafficWindow][outcomes]uint32
}

// NewTraffic returns an empty Traffic.
func NewTraffic() *Traffic { return &Traffic{began: time.Now(), routes: map[string]*routeTraffic{}} }

// Observe counts a request. It is a proxy.ObserverFunc.
func (t *Traffic) Observe(_ context.Context, e proxy.Event) {
	if e.Begun {
		return
	}
	now, o := t.second(), outcomeOf(e.Kind)
	t.mu.Lock()
	defer t.mu.Unlock()
	name := cmp.Or(e.Route, "everything else")
	r := t.routes[name]
	if r == nil && len(t.routes) >= maxRoutes { // reloads have brought new ones again and again
		name = otherRoutes
		r = t.routes[name]
	}
	if r == nil {
		r = &routeTraffic{newest: now}
		t.routes[name] = r
	}
	r.advance(now)
	r.total[o]++
	r.ring[now%trafficWindow][o]++
}

// second is the time since the beginning.
func (t *Traffic) second() int64 { return int64(time.Since(t.began) / time.Second) }

// advance empties the entries of the seconds that have passed.
func (r *routeTraffic) advance(now int64) {
	for s := max(r.newest+1, now-trafficWindow+1); s <= now; s++ {
		r.ring[s%trafficWindow] = [outcomes]uint32{}
	}
	r.newest = max(r.newest, now)
}

func outcomeOf(k retrysafe.EventKind) outcome {
	switch k {
	case retrysafe.AnswerReplayed, retrysafe.AnswerOmitted:
		return replayed
	case 0, retrysafe.InFlightRefused, retrysafe.WaitTimedOut, retrysafe.MismatchRefused, retrysafe.AbandonedRefused,
		retrysafe.NotReplayableRefused, retrysafe.StoreFailed:
		return refused
	case retrysafe.WorkUnknown, retrysafe.SaveAbandoned, retrysafe.LeaseTaken:
		return unknown
	}
	return ran
}

// RouteRow is the traffic of a route.
type RouteRow struct {
	Route         string
	Recent, Total Tally
}

// recent returns the traffic by route, the busiest first, and the requests of each step seconds of the window, the
// oldest first.
func (t *Traffic) recent(step int) (rows []RouteRow, series []Tally) {
	series = make([]Tally, trafficWindow/step)
	now := t.second()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(t.routes)) {
		r := t.routes[name]
		r.advance(now)
		row := RouteRow{Route: name, Total: r.total}
		for back := range min(int64(trafficWindow), now+1) {
			for o, n := range r.ring[(now-back)%trafficWindow] {
				row.Recent[o] += uint64(n)
				series[len(series)-1-int(back)/step][o] += uint64(n)
			}
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b RouteRow) int { return cmp.Compare(b.Recent.All(), a.Recent.All()) })
	return rows, series
}

// All is the number of requests.
func (t Tally) All() (n uint64) {
	for _, count := range t {
		n += count
	}
	return n
}

// Ran, Replayed, Refused and Unknown are for templates.
func (t Tally) Ran() int64 { return int64(t[ran]) }

// Replayed is the number of requests that got the answer of an earlier attempt.
func (t Tally) Replayed() int64 { return int64(t[replayed]) }

// Refused is the number of requests that got an error of the proxy.
func (t Tally) Refused() int64 { return int64(t[refused]) }

// Unknown is the number of requests whose outcome is unknown.
func (t Tally) Unknown() int64 { return int64(t[unknown]) }

// Share is how many percent of the requests were replayed.
func (t Tally) Share() float64 {
	if t.All() == 0 {
		return 0
	}
	return 100 * float64(t[replayed]) / float64(t.All())
}

func (t Tally) plus(other Tally) Tally {
	for o := range t {
		t[o] += other[o]
	}
	return t
}
