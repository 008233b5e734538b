package traffic

import (
	"encoding/json"
	"net/http"
	"time"
)

// Report is what a proxy serves at GET /stats. It has digests and scopes, as its events do, and never a key.
type Report struct {
	// Began is when the proxy was started.
	Began time.Time `json:"began"`
	// Seconds is the time of the rates: the last five minutes, or less after the start.
	Seconds float64 `json:"seconds"`
	// Total is all routes together.
	Total Row `json:"total"`
	// Routes are those with requests since the start, the busiest first.
	Routes []Row `json:"routes"`
	// TopSeconds is the time in which keys and callers were counted: the last five to ten minutes, or less after the
	// start.
	TopSeconds float64 `json:"top_seconds"`
	// Keys and Callers are those with most requests, 100 at most. A key with a single request is left out.
	Keys    []Top `json:"keys"`
	Callers []Top `json:"callers"`
}

// Row is a route.
type Row struct {
	Route string `json:"route,omitempty"`
	// Counts are the requests with a key in Report.Seconds.
	Counts
	PerSecond Rates `json:"per_second"`
	// DedupRate is the share of the requests that got the answer of an earlier attempt, from 0 to 1.
	DedupRate float64 `json:"dedup_rate"`
	// SinceStart are the requests since the proxy was started.
	SinceStart Counts `json:"since_start"`
}

// Counts are numbers of requests. Each request has one outcome.
type Counts struct {
	Requests int64 `json:"requests"`
	// Executed: the request was forwarded to the service, whatever the service answered. Replayed: it got the answer of
	// an earlier attempt. Refused: the proxy has answered with an error. Unknown: the operation may or may not have run.
	Executed int64 `json:"executed"`
	Replayed int64 `json:"replayed"`
	Refused  int64 `json:"refused"`
	Unknown  int64 `json:"unknown"`
}

// Rates are Counts per second.
type Rates struct {
	Requests float64 `json:"requests"`
	Executed float64 `json:"executed"`
	Replayed float64 `json:"replayed"`
	Refused  float64 `json:"refused"`
	Unknown  float64 `json:"unknown"`
}

// Top is a key or a caller with many requests.
type Top struct {
	// Key is a digest, Scope that of a caller.
	Key   string `json:"key,omitempty"`
	Scope string `json:"scope,omitempty"`
	// Counts are the requests that were seen. Missed is how many there may have been besides, at most, while more than
	// 1000 others had requests; 0: Counts are exact.
	Counts
	Missed int64 `json:"missed"`
	// Route is that of the last request.
	Route string `json:"route"`
}

// Report returns what is served.
func (m *Meter) Report() Report {
	rows, _ := m.Recent(windowSeconds)
	seconds := m.Seconds()
	r := Report{
		Began: m.began.UTC(), Seconds: seconds,
		Total: rowOf(Sum(rows), seconds), Routes: []Row{},
	}
	for _, row := range rows {
		r.Routes = append(r.Routes, rowOf(row, seconds))
	}
	keys, callers, covered := m.Top()
	r.Keys, r.Callers, r.TopSeconds = keys, callers, float64(covered)
	return r
}

func rowOf(r RouteRow, seconds float64) Row {
	c := countsOf(r.Recent)
	return Row{
		Route: r.Route, Counts: c, DedupRate: r.Recent.Share() / 100, SinceStart: countsOf(r.Total),
		PerSecond: Rates{
			float64(c.Requests) / seconds, float64(c.Executed) / seconds, float64(c.Replayed) / seconds,
			float64(c.Refused) / seconds, float64(c.Unknown) / seconds,
		},
	}
}

func countsOf(t Tally) Counts {
	return Counts{int64(t.All()), t.Executed(), t.Replayed(), t.Refused(), t.Unknown()}
}

// ServeHTTP serves the Report.
func (m *Meter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(m.Report()) // the connection is gone
}
