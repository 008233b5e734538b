package otelsafe

import (
	"time"

	"go.opentelemetry.io/otel/metric"
)

// storeGauges export a reading. They are gauges, not UpDownCounters: backends add up UpDownCounters, and two
// processes that read the same store must not be added up.
type storeGauges struct {
	up, records, projected, size, unread, entries metric.Int64ObservableGauge
	age, readingAge, scanAge                      metric.Float64ObservableGauge
}

func newStoreGauges(m *maker) storeGauges {
	return storeGauges{
		up: m.observed("retrysafe.store.up", "", "Whether the store could be read for these metrics: 1 or 0."),
		records: m.observed("retrysafe.store.records", "{record}",
			"Records in the store by state, including expired ones that no sweep has removed yet."),
		projected: m.observed("retrysafe.store.projected_records", "{record}",
			"Records that the store will hold in the long run: the rate of the newest 1000, times how long records are kept."),
		entries: m.observed("retrysafe.store.entries", "{entry}",
			"Entries that the server counts for a store whose records it does not count: keys, messages or items."),
		size: m.observed("retrysafe.store.size", "By", "Space that the store takes, in memory or on disk."),
		age: m.observedSeconds("retrysafe.pending.age",
			"Ages of pending records, in flight or abandoned, since their first claim. Quantile 1 is the oldest."),
		readingAge: m.observedSeconds("retrysafe.store.reading.age", "How old the reading of the store is."),
		scanAge:    m.observedSeconds("retrysafe.store.scan.age", "How old the last scan of all records is."),
		unread: m.observed("retrysafe.pending.unread", "{record}",
			"Pending records, older than those read, that retrysafe.pending.age leaves out."),
	}
}

func (g storeGauges) all() []metric.Observable {
	return []metric.Observable{g.up, g.records, g.projected, g.size, g.age, g.readingAge, g.unread}
}

// ofSize and ofScan are those of a store that scans fully.
func (g storeGauges) ofSize() []metric.Observable {
	return []metric.Observable{g.up, g.entries, g.size, g.readingAge}
}

func (g storeGauges) ofScan() []metric.Observable {
	return []metric.Observable{g.records, g.projected, g.age, g.scanAge, g.unread}
}

// showSize passes what a server knows of its store to the SDK. The store counts as unread after a scan that failed,
// too.
func (g storeGauges) showSize(to metric.Observer, s size, at time.Time, failed, scanFailed bool) {
	switch {
	case failed:
		to.ObserveInt64(g.up, 0)
		return
	case at.IsZero():
		return
	case scanFailed:
		to.ObserveInt64(g.up, 0)
	default:
		to.ObserveInt64(g.up, 1)
	}
	to.ObserveFloat64(g.readingAge, time.Since(at).Seconds())
	to.ObserveInt64(g.entries, s.entries)
	to.ObserveInt64(g.size, s.bytes)
}

// showScan passes a scan to the SDK; nothing before the first one, and after one that failed.
func (g storeGauges) showScan(to metric.Observer, r reading, at time.Time, failed bool) {
	if failed || at.IsZero() {
		return
	}
	to.ObserveFloat64(g.scanAge, time.Since(at).Seconds())
	g.showRecords(to, r)
}

// show passes a reading to the SDK. After a failed one it exports only retrysafe.store.up, before the first one
// nothing.
func (g storeGauges) show(to metric.Observer, r reading, at time.Time, failed bool) {
	switch {
	case failed:
		to.ObserveInt64(g.up, 0)
		return
	case at.IsZero():
		return
	}
	to.ObserveInt64(g.up, 1)
	to.ObserveFloat64(g.readingAge, time.Since(at).Seconds())
	to.ObserveInt64(g.size, r.stats.Bytes)
	g.showRecords(to, r)
}

// showRecords passes to the SDK what a reading or a scan knows of the records.
func (g storeGauges) showRecords(to metric.Observer, r reading) {
	for state, n := range r.states() {
		to.ObserveInt64(g.records, n, metric.WithAttributes(attrState.String(state)))
	}
	to.ObserveInt64(g.unread, r.unread)
	for quantile, age := range r.ages {
		to.ObserveFloat64(g.age, age.Seconds(), metric.WithAttributes(attrQuantile.String(quantile)))
	}
	if r.projected >= 0 {
		to.ObserveInt64(g.projected, r.projected)
	}
}
