// Package traffic counts what became of the requests of a proxy: how many there were, and which keys and callers had
// most of them. The dashboard shows it, and the proxy serves it at GET /stats to the command retrysafe stats.
//
//	traffic.go  Meter: requests by route, second and outcome
//	top.go      the hottest keys and the noisiest callers of the last minutes
//	sketch.go   Space-Saving: the most frequent of any number of things, in bounded memory
//	report.go   what is served, as JSON
package traffic

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

// Window is the time of the recent requests.
const Window = windowSeconds * time.Second

// Bounds of what a Meter keeps: a few kilobytes for each route, and about a megabyte for keys and callers.
const (
	windowSeconds = 300
	maxRoutes     = 200
	otherRoutes   = "all further routes"
)

// outcome is what became of a request with a key.
type outcome int

const (
	executed outcome = iota // forwarded, whatever the service answered
	replayed                // the answer of an earlier attempt
	refused
	unknown // the operation may or may not have run
	outcomes
)

// Tally counts requests by outcome.
type Tally [outcomes]uint64

// Meter counts what became of the requests of a proxy: per second for the last minutes, and since it began. Its memory
// is bounded, and a request holds its lock for about a microsecond at most: see BenchmarkObserve.
type Meter struct {
	began time.Time

	mu      sync.Mutex
	routes  map[string]*routeTraffic
	keys    recent[retrysafe.Digest]
	callers recent[string]
}

type routeTraffic struct {
	total  Tally
	newest int64 // the second of the newest entry of the ring
	ring   [windowSeconds][outcomes]uint32
}

// NewMeter returns an empty Meter.
func NewMeter() *Meter {
	return &Meter{
		began: time.Now(), routes: map[string]*routeTraffic{},
		keys: newRecent[retrysafe.Digest](), callers: newRecent[string](),
	}
}

// Observe counts a request. It is a proxy.ObserverFunc.
func (m *Meter) Observe(_ context.Context, e proxy.Event) {
	if e.Begun {
		return
	}
	now, o := m.second(), outcomeOf(e.Kind)
	m.mu.Lock()
	defer m.mu.Unlock()
	name := m.countRoute(cmp.Or(e.Route, "everything else"), now, o)
	m.countTop(e, name, now, o)
}

// countRoute returns the name under which the request is counted.
func (m *Meter) countRoute(name string, now int64, o outcome) string {
	r := m.routes[name]
	if r == nil && len(m.routes) >= maxRoutes { // reloads have brought new ones again and again
		name = otherRoutes
		r = m.routes[name]
	}
	if r == nil {
		r = &routeTraffic{newest: now}
		m.routes[name] = r
	}
	r.advance(now)
	r.total[o]++
	r.ring[now%windowSeconds][o]++
	return name
}

// second is the time since the beginning.
func (m *Meter) second() int64 { return int64(time.Since(m.began) / time.Second) }

// advance empties the entries of the seconds that have passed.
func (r *routeTraffic) advance(now int64) {
	for s := max(r.newest+1, now-windowSeconds+1); s <= now; s++ {
		r.ring[s%windowSeconds] = [outcomes]uint32{}
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
	return executed
}

// RouteRow is the traffic of a route.
type RouteRow struct {
	Route         string
	Recent, Total Tally
}

// Recent returns the traffic by route, the busiest first, and the requests of each step seconds of the Window, the
// oldest first.
func (m *Meter) Recent(step int) (rows []RouteRow, series []Tally) {
	series = make([]Tally, windowSeconds/step)
	now := m.second()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.routes)) {
		r := m.routes[name]
		r.advance(now)
		row := RouteRow{Route: name, Total: r.total}
		for back := range min(int64(windowSeconds), now+1) {
			for o, n := range r.ring[(now-back)%windowSeconds] {
				row.Recent[o] += uint64(n)
				series[len(series)-1-int(back)/step][o] += uint64(n)
			}
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b RouteRow) int { return cmp.Compare(b.Recent.All(), a.Recent.All()) })
	return rows, series
}

// Sum is the traffic of all routes.
func Sum(rows []RouteRow) (sum RouteRow) {
	for _, r := range rows {
		sum.Recent, sum.Total = sum.Recent.plus(r.Recent), sum.Total.plus(r.Total)
	}
	return sum
}

// Began is when the counting began.
func (m *Meter) Began() time.Time { return m.began }

// Seconds is how many seconds the recent requests are of, to divide them by.
func (m *Meter) Seconds() float64 { return min(max(time.Since(m.began).Seconds(), 1), windowSeconds) }

// All is the number of requests.
func (t Tally) All() (n uint64) {
	for _, count := range t {
		n += count
	}
	return n
}

// Executed is the number of requests that were forwarded to the service, whatever it answered.
func (t Tally) Executed() int64 { return int64(t[executed]) }

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
