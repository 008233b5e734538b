package dashboard

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// Bounds of what is remembered and read.
const (
	maxEntries  = 500
	maxTrailsOf = 50 // keys whose trails are read for the page
)

// entry is a decision about a key.
type entry struct {
	At      time.Time
	By      string
	Action  retrysafe.ResolveAction
	Digest  string
	Reason  string
	Outcome string
	Here    bool // decided in this dashboard, since it started
}

// Words is the action for people.
func (e entry) Words() string { return actionWords(e.Action) }

// decisions are those that this process knows, in the order in which it learnt of them.
type decisions struct {
	mu  sync.Mutex
	all []entry
}

func (d *decisions) add(e entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) >= maxEntries {
		d.all = slices.Delete(d.all, 0, len(d.all)-maxEntries+1)
	}
	d.all = append(d.all, e)
}

// addTrail adds what the trail of a record has, unless it is known.
func (d *decisions) addTrail(r keys.Record) {
	for _, e := range r.Trail {
		outcome := "carried out"
		if e.Unfinished {
			outcome = "not carried out: the process or the store failed"
		}
		known := entry{At: e.At, By: e.By, Action: e.Action, Digest: r.Digest, Reason: e.Reason, Outcome: outcome}
		if !d.has(known) {
			d.add(known)
		}
	}
}

// has reports whether a decision is known. Those that were made here have the time of this process, which is a moment
// later than that of the trail.
func (d *decisions) has(e entry) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.all, func(k entry) bool {
		same := k.Digest == e.Digest && k.Action == e.Action && k.By == e.By && k.Reason == e.Reason
		return same && (k.At.Equal(e.At) || k.Here && k.At.Sub(e.At).Abs() < time.Minute)
	})
}

// newest returns all, the newest first.
func (d *decisions) newest() []entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(d.all)
	slices.SortStableFunc(all, func(a, b entry) int { return b.At.Compare(a.At) })
	return all
}

// auditPage is the data of the page.
type auditPage struct {
	Entries []entry
	Read    int // keys whose trails were read for this page
	Most    int
	Kept    int
}

// audit shows the decisions that this process knows. On request it reads the trails of the newest keys first.
func (q *request) audit() error {
	data := auditPage{Most: maxTrailsOf, Kept: maxEntries}
	if q.r.FormValue("read") != "" {
		if err := q.readTrails(&data); err != nil {
			return err
		}
	}
	data.Entries = q.decisions.newest()
	return q.render(http.StatusOK, "audit", "Decisions", "audit", data)
}

func (q *request) readTrails(data *auditPage) error {
	page, err := q.keys.List(q.r.Context(), keys.Query{State: keys.All})
	if err != nil {
		return err
	}
	for _, r := range page.Keys {
		if data.Read == maxTrailsOf {
			break
		}
		found, err := q.keys.Show(q.r.Context(), keys.Look{Key: r.Digest})
		if err != nil {
			return err
		}
		for _, f := range found {
			q.decisions.addTrail(f)
		}
		data.Read++
	}
	return nil
}
