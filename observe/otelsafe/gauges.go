package otelsafe

import (
	"time"

	"go.opentelemetry.io/otel/metric"
)

// storeGauges export a reading. They are gauges, not UpDownCounters: backends add up UpDownCounters, and two
// processes that read the same store must not be added up.
type storeGauges struct {
	up, records, projected, size, unread metric.Int64ObservableGauge
	age, readingAge                      metric.Float64ObservableGauge
}

func newStoreGauges(m *maker) storeGauges {
	return storeGauges{
		up: m.observed("retrysafe.store.up", "", "Whether the store could be read for these metrics: 1 or 0."),
		records: m.observed("retrysafe.store.records", "{record}",
			"Records in the store by state, including expired ones that no sweep has removed yet."),
		projected: m.observed("retrysafe.store.projected_records", "{record}",
			"Records that the store will hold in the long run: the rate of the newest 1000, times how long records are kept."),
		size: m.observed("retrysafe.store.size", "By", "Space that the store takes, in memory or on disk."),
		age: m.observedSeconds("retrysafe.pending.age",
			"Ages of pending records, in flight or abandoned, since their first claim. Quantile 1 is the oldest."),
		readingAge: m.observedSeconds("retrysafe.store.reading.age", "How old the reading of the store is."),
		unread: m.observed("retrysafe.pending.unread", "{record}",
			"Pending records, older than those read, that retrysafe.pending.age leaves out."),
	}
}

func (g storeGauges) all() []metric.Observable {
	return []metric.Observable{g.up, g.records, g.projected, g.size, g.age, g.readingAge, g.unread}
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
	for state, n := range r.states() {
		to.ObserveInt64(g.records, n, metric.WithAttributes(attrState.String(state)))
	}
	to.ObserveInt64(g.size, r.stats.Bytes)
	to.ObserveInt64(g.unread, r.unread)
	for quantile, age := range r.ages {
		to.ObserveFloat64(g.age, age.Seconds(), metric.WithAttributes(attrQuantile.String(quantile)))
	}
	if r.projected >= 0 {
		to.ObserveInt64(g.projected, r.projected)
	}
}
