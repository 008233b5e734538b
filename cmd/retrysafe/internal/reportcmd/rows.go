package reportcmd

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// Report is what a proxy serves at /report: what enforcing would have done since the counting began.
type Report struct {
	// Since is when the proxy began to count. It counts anew after a restart.
	Since time.Time `json:"since"`
	// Routes are those with requests that were observed.
	Routes []Row `json:"routes"`
}

// Row is one route, or all of them together. Fields count requests unless they say otherwise.
type Row struct {
	// Route is the pattern; empty: everything else.
	Route string `json:"route"`
	// Requests are those with methods that keys are for. Each of them is in one of the fields below that are requests, or is
	// one without a key where none is required, or the first with its key.
	Requests int64 `json:"requests"`
	// Keyed are those with a key. Missing have none where one is required: 400.
	Keyed   int64 `json:"keyed"`
	Missing int64 `json:"missing"`
	// Retries would have got the stored answer: the first request with the key had ended.
	Retries int64 `json:"retries"`
	// Concurrent would have waited or got 409: another request with the key was running. Both ran at the same time.
	Concurrent int64 `json:"concurrent"`
	// Mismatches would have got 422: the key was first used for a different request.
	Mismatches int64 `json:"mismatches"`
	// Unknown are retries of requests whose end is not known, because the proxy died.
	Unknown int64 `json:"unknown"`
	// Freed are those whose answer, such as 503 with Retry-After, would have freed the key: a retry runs.
	Freed int64 `json:"freed"`
	// Refused would have been refused for other reasons: a malformed or old key, an unknown caller, a body that is too long.
	Refused int64 `json:"refused"`
	// Keys is how many keys were used, Reused how many of them more than once, and UsedOnce how many were not. A key may be
	// used first at one proxy and again at another: only the sum over all proxies of a store is right.
	Keys     int64 `json:"keys"`
	Reused   int64 `json:"reused"`
	UsedOnce int64 `json:"used_once"`
	// Unobserved could not be observed, and UnobservedBy says why: busy, store, body or panic.
	Unobserved   int64            `json:"unobserved"`
	UnobservedBy map[string]int64 `json:"unobserved_by,omitempty"`
}

// RowOf returns what was counted of a route.
func RowOf(c httpsafe.RouteCounts) Row {
	of := c.Observed
	r := Row{
		Route: c.Route, Requests: c.Requests(), Missing: of[httpsafe.ObservedMissing],
		Retries: of[httpsafe.ObservedRetry], Concurrent: of[httpsafe.ObservedConcurrent],
		Mismatches: of[httpsafe.ObservedMismatch], Unknown: of[httpsafe.ObservedUnknown],
		Freed: of[httpsafe.ObservedFreed], Refused: of[httpsafe.ObservedRefused],
		Keys: of[httpsafe.ObservedFirst], Reused: c.Reused,
	}
	r.Keyed = r.Requests - r.Missing - of[httpsafe.ObservedNoKey]
	r.UsedOnce = max(0, r.Keys-r.Reused)
	for o, n := range of {
		if why, ok := strings.CutPrefix(o.String(), "unobserved_"); ok {
			r.addUnobserved(why, n)
		}
	}
	return r
}

func (r *Row) addUnobserved(why string, n int64) {
	if r.UnobservedBy == nil {
		r.UnobservedBy = map[string]int64{}
	}
	r.UnobservedBy[why] += n
	r.Unobserved += n
}

// Add adds what was counted elsewhere, or of another route.
func (r *Row) Add(other Row) {
	r.Requests += other.Requests
	r.Keyed += other.Keyed
	r.Missing += other.Missing
	r.Retries += other.Retries
	r.Concurrent += other.Concurrent
	r.Mismatches += other.Mismatches
	r.Unknown += other.Unknown
	r.Freed += other.Freed
	r.Refused += other.Refused
	r.Keys += other.Keys
	r.Reused += other.Reused
	r.UsedOnce = max(0, r.Keys-r.Reused)
	for why, n := range other.UnobservedBy {
		r.addUnobserved(why, n)
	}
}

// Sum adds the reports of several proxies. Its Since is the latest of theirs, from which on all of them have counted.
func Sum(reports ...Report) Report {
	var sum Report
	rows := map[string]*Row{}
	for _, one := range reports {
		if one.Since.After(sum.Since) {
			sum.Since = one.Since
		}
		for _, r := range one.Routes {
			if rows[r.Route] == nil {
				rows[r.Route] = &Row{Route: r.Route}
			}
			rows[r.Route].Add(r)
		}
	}
	sum.Routes = []Row{}
	for _, route := range slices.Sorted(maps.Keys(rows)) {
		sum.Routes = append(sum.Routes, *rows[route])
	}
	slices.SortStableFunc(sum.Routes, func(a, b Row) int { return cmp.Compare(b.Requests, a.Requests) })
	return sum
}
