package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
	"github.com/retrysafe/retrysafe/internal/storestats"
)

// Measure says how to measure a store.
type Measure struct {
	// Scan reads every record if the store has no index for its records.
	Scan bool `json:"scan,omitempty"`
}

// Measured is how much a store holds, and how old its unfinished keys are.
type Measured struct {
	// Records are counted by state, expired ones that no sweep has removed yet included; nil if the store has no index
	// for its records and they were not read.
	Records map[string]int64 `json:"records,omitempty"`
	// Projected is an estimate of the records in the long run at the present rate: that of the newest 1000 records, times
	// how long those of them that have ended are kept. nil: none of them has ended, or Records is nil.
	Projected *int64 `json:"projected_records,omitempty"`
	// Entries are what the server of a store without an index counts: one for each record at least.
	Entries int64 `json:"entries,omitempty"`
	// Bytes is the space that the store takes, in memory or on disk.
	Bytes int64 `json:"bytes"`
	// ProjectedBytes is Bytes for the projected number of records, if they are as long as the present ones.
	ProjectedBytes *int64 `json:"projected_bytes,omitempty"`
	// Ages are those of the unfinished keys, by state: abandoned, uncommitted and in flight.
	Ages map[string]Ages `json:"ages,omitempty"`
	// Unread is how many unfinished keys Ages leave out, because there are more than a million.
	Unread int64 `json:"unread,omitempty"`
	// Unreadable says which records all of this leaves out because the store cannot read them, such as those of a newer
	// version; "": none.
	Unreadable string `json:"unreadable,omitempty"`
}

// Ages are how long ago unfinished keys were first claimed, in seconds: half of them are no older than P50.
type Ages struct {
	Keys   int     `json:"keys"`
	P50    float64 `json:"p50_seconds"`
	P95    float64 `json:"p95_seconds"`
	P99    float64 `json:"p99_seconds"`
	Oldest float64 `json:"oldest_seconds"`
}

// maxAges is how many ages are kept to sort them: 8 MB.
const maxAges = 1 << 20

// unfinished collects the ages of pending records.
type unfinished struct {
	ages      map[string][]time.Duration // by state
	read      int
	unread    int64
	abandoned int64
}

// add adds a record. A key that is pending is uncommitted if it is neither in flight nor abandoned, as in count.
func (u *unfinished) add(r retrysafe.Record) {
	state := Uncommitted
	switch {
	case r.State != retrysafe.Pending:
		return
	case r.LeaseLeft > 0:
		state = InFlight
	case IsUnknown(r):
		state = Abandoned
		u.abandoned++
	}
	if u.read++; u.read > maxAges {
		u.unread++
		return
	}
	u.ages[state] = append(u.ages[state], r.Age)
}

func (u *unfinished) quantiles() map[string]Ages {
	all := map[string]Ages{}
	for state, ages := range u.ages {
		slices.Sort(ages)
		at := func(q float64) float64 { return storestats.Quantile(ages, q).Seconds() }
		all[state] = Ages{len(ages), at(0.5), at(0.95), at(0.99), at(1)}
	}
	return all
}

// Measure implements Keys.
func (l Local) Measure(ctx context.Context, how Measure) (m Measured, err error) {
	u := &unfinished{ages: map[string][]time.Duration{}}
	projected := int64(-1)
	var stats retrysafe.Stats
	if scanner, ok := l.Store.(retrysafe.FullScanner); ok && scanner.ScansFully() {
		if sizer, ok := retrysafe.As[retrysafe.Sizer](l.Store); ok {
			if m.Entries, stats.Bytes, err = sizer.Size(ctx); err != nil {
				return Measured{}, err
			}
		}
		if !how.Scan {
			m.Bytes = stats.Bytes
			return m, nil
		}
		if projected, err = l.scan(ctx, &stats, u); errors.Is(err, retrysafe.ErrUnreadable) {
			m.Unreadable, err = err.Error(), nil
		}
	} else if stats, err = l.Store.Stats(ctx); err == nil {
		projected, err = l.sample(ctx, u)
	}
	if err != nil {
		return Measured{}, err
	}
	m.Bytes, m.Ages, m.Unread = stats.Bytes, u.quantiles(), u.unread
	m.Records = byState(stats, u.abandoned)
	if records := stats.Pending + stats.Released + stats.Succeeded + stats.Failed; projected >= 0 {
		bytes := int64(float64(m.Bytes) * float64(projected) / float64(max(records, 1)))
		m.Projected, m.ProjectedBytes = &projected, &bytes
	}
	return m, nil
}

// scan reads every record, and returns the projected number of records; -1: it is not known.
func (l Local) scan(ctx context.Context, stats *retrysafe.Stats, u *unfinished) (projected int64, err error) {
	var newest storestats.Newest
	read := 0
	err = retrysafe.Walk(ctx, l.Store, func(r retrysafe.Record) error {
		if read++; read%pageSize == 0 && l.Progress != nil {
			l.Progress(read)
		}
		storekit.Count(stats, r.State, r.LeaseLeft <= 0)
		u.add(r)
		newest.Add(r)
		return ctx.Err()
	})
	return newest.Project(), err
}

// sample reads the pending records, and the newest ones for the projection.
func (l Local) sample(ctx context.Context, u *unfinished) (projected int64, err error) {
	for p := (retrysafe.ListParams{State: retrysafe.Pending, Limit: pageSize}); ; {
		found, err := l.Store.List(ctx, p)
		if err != nil {
			return 0, err
		}
		for _, r := range found {
			p.Before = r.FirstFence
			u.add(r)
		}
		if len(found) < pageSize {
			break
		}
	}
	newest, err := l.Store.List(ctx, retrysafe.ListParams{Limit: storestats.Sampled})
	return storestats.Project(newest), err
}
