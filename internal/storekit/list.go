package storekit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/retrysafe/retrysafe"
)

const (
	defaultListed = 100
	maxListed     = 1000
)

// ListParams returns p with its defaults filled in: Limit is between 1 and 1000, and Before, if it was 0, is above
// every fence.
func ListParams(p retrysafe.ListParams) retrysafe.ListParams {
	if p.Limit <= 0 {
		p.Limit = defaultListed
	}
	p.Limit = min(p.Limit, maxListed)
	if p.Before == 0 {
		p.Before = math.MaxInt64
	}
	return p
}

// Selects reports whether a listing selects the record of a key.
func Selects(p retrysafe.ListParams, k retrysafe.Key, s retrysafe.State, firstFence int64) bool {
	return firstFence < p.Before && (p.State == 0 || s == p.State) && (p.Scope == nil || k.Scope == *p.Scope)
}

// Page is the newest of the records that a store finds in no order.
type Page struct {
	Limit int
	found []retrysafe.Record
}

// Add adds a record, which may come twice.
func (p *Page) Add(r retrysafe.Record) {
	if p.found = append(p.found, r); len(p.found) > 10*p.Limit {
		p.trim()
	}
}

// Records returns the records of the page, the newest first, and those with the same FirstFence as the last of them.
func (p *Page) Records() []retrysafe.Record {
	p.trim()
	return append([]retrysafe.Record{}, p.found...)
}

func (p *Page) trim() {
	slices.SortFunc(p.found, func(a, b retrysafe.Record) int {
		return cmp.Or(cmp.Compare(b.FirstFence, a.FirstFence), cmp.Compare(a.Key.Scope, b.Key.Scope),
			cmp.Compare(a.Key.ID, b.Key.ID))
	})
	p.found = slices.CompactFunc(p.found, func(a, b retrysafe.Record) bool {
		return a.FirstFence == b.FirstFence && a.Key == b.Key
	})
	n := min(p.Limit, len(p.found))
	for n > 0 && n < len(p.found) && p.found[n].FirstFence == p.found[n-1].FirstFence {
		n++
	}
	p.found = p.found[:n]
}

// Unread are the records that a listing leaves out because it cannot read them, such as those of a newer version: one
// of them must not hide all others.
type Unread struct {
	n     int
	first error
}

// LeaveOut notes what the store has under a name. err, which wraps retrysafe.ErrUnreadable, says why it cannot be read.
func (u *Unread) LeaveOut(name string, err error) {
	if u.n++; u.first == nil {
		u.first = fmt.Errorf("%s: %w", name, err)
	}
}

// Err returns nil if there are none, and otherwise an error that wraps retrysafe.ErrUnreadable.
func (u *Unread) Err() error {
	if u.n == 0 {
		return nil
	}
	return fmt.Errorf("left out %d that cannot be read, the first of them %w", u.n, u.first)
}

// Count adds a record to stats. over says that the lease of a pending one has run out.
func Count(stats *retrysafe.Stats, s retrysafe.State, over bool) {
	switch s {
	case retrysafe.Pending:
		stats.Pending++
		if over {
			stats.Abandoned++
		}
	case retrysafe.Released:
		stats.Released++
	case retrysafe.Succeeded:
		stats.Succeeded++
	case retrysafe.Failed:
		stats.Failed++
	}
}
