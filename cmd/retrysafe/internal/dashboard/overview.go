package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/traffic"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// refreshEvery is how often a store is asked for counts at most, however many pages are open. One that takes long is
// asked less often.
const (
	refreshEvery = 5 * time.Second
	refreshRest  = 20 // times as long as it took
)

const (
	// countTimeout bounds a count of all keys, for which no page waits.
	countTimeout = time.Minute
	// countPatience is how long a page waits for the counts, so that it comes with those of most stores.
	countPatience = 200 * time.Millisecond
)

// counts are the last ones of the store.
type counts struct {
	mu       sync.Mutex
	asked    chan struct{} // closed when the store has answered; nil: it was never asked
	next     time.Time
	last     counted
	lastErr  error
	patience time.Duration
}

// counted is what the store was asked. Unfinished keys are listed, which takes less time than to count all.
type counted struct {
	At        time.Time        // of the lists; zero: there was none yet
	InFlight  ages             // keys that an attempt works on
	Waiting   ages             // abandoned
	ByState   map[string]int64 // nil: they were never counted
	Unread    string           // which keys are not counted; "": all are
	CountedAt time.Time        // of ByState
	Counting  bool             // that is going on
}

// of returns how many keys there are in a state, if it is known.
func (c counted) of(state string) (n int64, known bool) {
	switch {
	case state == keys.Abandoned && !c.At.IsZero() && !c.Waiting.More:
		return int64(c.Waiting.N), true
	case state == keys.InFlight && !c.At.IsZero() && !c.InFlight.More:
		return int64(c.InFlight.N), true
	}
	return c.ByState[state], c.ByState != nil
}

// ages are those of the keys of a state.
type ages struct {
	N       int // without those of observe mode
	Buckets []bucket
	Oldest  float64
	More    bool // than one page of the store
}

type bucket struct {
	Name    string
	N       int
	Percent int // of the largest bucket
}

var ageLimits = []struct {
	name  string
	below time.Duration
}{
	{"under 10 s", 10 * time.Second},
	{"10 s to 1 min", time.Minute},
	{"1 to 10 min", 10 * time.Minute},
	{"10 min to 1 h", time.Hour},
	{"1 h to 1 d", 24 * time.Hour},
	{"over 1 d", 1 << 62},
}

func agesOf(page keys.Page) ages {
	a := ages{More: page.Next != 0}
	for _, limit := range ageLimits {
		a.Buckets = append(a.Buckets, bucket{Name: limit.name})
	}
	most := 1
	for _, r := range page.Keys {
		a.Oldest = max(a.Oldest, r.Age)
		if r.State != keys.Abandoned || !httpsafe.IsObservedScope(r.Scope) {
			a.N++
		}
		for i, limit := range ageLimits {
			if r.Age < limit.below.Seconds() {
				a.Buckets[i].N++
				most = max(most, a.Buckets[i].N)
				break
			}
		}
	}
	for i := range a.Buckets {
		a.Buckets[i].Percent = 100 * a.Buckets[i].N / most
	}
	return a
}

// get returns the counts. The store is asked once at a time, and a page does not wait longer for its answer than
// c.patience: it then shows what is known, and renews itself.
func (c *counts) get(ctx context.Context, from keys.Keys) (counted, error) {
	c.mu.Lock()
	isAsking := c.asked != nil && c.next.IsZero()
	if !isAsking && !time.Now().Before(c.next) {
		c.asked, c.next = make(chan struct{}), time.Time{}
		c.last.Counting = true
		go c.ask(context.WithoutCancel(ctx), from)
	}
	asked := c.asked
	c.mu.Unlock()

	patience := time.NewTimer(c.patience)
	defer patience.Stop()
	select {
	case <-asked:
	case <-patience.C:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.lastErr
}

// ask asks the store for unfinished keys, which come first, and then for the numbers of all.
func (c *counts) ask(ctx context.Context, from keys.Keys) {
	began := time.Now()
	waiting, err := timed{from}.List(ctx, keys.Query{State: keys.Abandoned})
	var working keys.Page
	if err == nil {
		working, err = timed{from}.List(ctx, keys.Query{State: keys.InFlight})
	}
	c.mu.Lock()
	if c.lastErr = err; err == nil {
		c.last.At, c.last.Waiting, c.last.InFlight = time.Now(), agesOf(waiting), agesOf(working)
	}
	c.mu.Unlock()

	var measured keys.Measured
	if err == nil {
		ctx, stop := context.WithTimeout(ctx, countTimeout)
		defer stop()
		measured, err = from.Measure(ctx, keys.Measure{Scan: true})
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.last.ByState, c.last.Unread, c.last.CountedAt = measured.Records, measured.Unreadable, now
	}
	c.last.Counting = false
	c.next = now.Add(max(refreshEvery, refreshRest*now.Sub(began)))
	if c.lastErr != nil {
		c.next = now // the next visitor asks again
	}
	close(c.asked)
}

// overviewPage is the data of the page, and of its live part.
type overviewPage struct {
	Live     bool // not paused
	Asked    bool // the visitor wants the store to read every record
	OnDemand bool // the store reads every record to count, and was not asked to
	Counted  counted
	States   []stateCount
	Traffic  *trafficPart // nil: this process runs no proxy
}

// Renews reports whether the live part renews itself. A store that reads every record is asked only by persons.
func (p overviewPage) Renews() bool { return p.Live && !p.Asked }

// ageGroup is the argument of the template that draws ages.
type ageGroup struct {
	Title string
	Ages  ages
}

type stateCount struct {
	State, Says string
	N           int64
	Known       bool
}

// stateWords are the states in the order in which they are shown.
var stateWords = []struct{ state, says string }{
	{keys.Abandoned, "outcome unknown: a person decides"},
	{keys.Uncommitted, "the next retry runs it"},
	{keys.InFlight, "an attempt is working"},
	{keys.Released, "free for the same request"},
	{keys.Succeeded, "retries get the answer"},
	{keys.Failed, "retries get the failure"},
}

// trafficPart is the traffic of the proxy.
type trafficPart struct {
	Rows        []traffic.RouteRow
	Sum         traffic.RouteRow
	Minutes     int
	PerSecond   string
	Since       time.Time
	Line, Again string // points of the chart: all requests, and those that were replayed
	Peak        uint64
}

const chartStep = 5 // seconds

func trafficPartOf(m *traffic.Meter) *trafficPart {
	rows, series := m.Recent(chartStep)
	p := &trafficPart{Rows: rows, Sum: traffic.Sum(rows), Minutes: int(traffic.Window / time.Minute), Since: m.Began()}
	p.PerSecond = fmt.Sprintf("%.1f", float64(p.Sum.Recent.All())/m.Seconds())
	for _, s := range series {
		p.Peak = max(p.Peak, s.All())
	}
	p.Line = points(series, p.Peak, traffic.Tally.All)
	p.Again = points(series, p.Peak, func(t traffic.Tally) uint64 { return uint64(t.Replayed()) })
	return p
}

// points are those of a polyline in a box of 600 by 100.
func points(series []traffic.Tally, peak uint64, of func(traffic.Tally) uint64) string {
	var text strings.Builder
	for i, s := range series {
		y := 98 - 94*float64(of(s))/float64(max(peak, 1))
		fmt.Fprintf(&text, "%.1f,%.1f ", 600*float64(i)/float64(len(series)-1), y)
	}
	return strings.TrimSpace(text.String())
}

// overviewData asks the store, unless that reads every record and the user has not asked for it.
func (q *request) overviewData() (overviewPage, error) {
	asked := q.scans && q.r.FormValue("read") != ""
	data := overviewPage{Live: q.r.FormValue("live") != "off", Asked: asked, OnDemand: q.scans && !asked}
	if q.options.Traffic != nil {
		data.Traffic = trafficPartOf(q.options.Traffic)
	}
	if data.OnDemand {
		return data, nil
	}
	var err error
	if data.Counted, err = q.counts.get(q.r.Context(), q.options.Keys); err != nil {
		return data, err
	}
	for _, s := range stateWords {
		n, isKnown := data.Counted.of(s.state)
		data.States = append(data.States, stateCount{s.state, s.says, n, isKnown})
	}
	return data, nil
}

func (q *request) overview() error {
	data, err := q.overviewData()
	if err != nil {
		return err
	}
	return q.render(http.StatusOK, "overview", "Overview", "overview", data)
}

// live is the part of the overview that renews itself.
func (q *request) live() error {
	data, err := q.overviewData()
	if err != nil {
		return err
	}
	return q.renderPart(http.StatusOK, "overview", "live", q.page("", "", data))
}

// configuration is the page of what is in force.
func (q *request) configuration() error {
	text := ""
	if q.options.ConfigFunc != nil {
		text = q.options.ConfigFunc()
	}
	return q.render(http.StatusOK, "configuration", "Configuration in force", "configuration", text)
}
