package otelsafe

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
)

// PendingAger is implemented by stores that know how old their pending records are without listing them.
type PendingAger interface {
	// PendingAges returns ages of pending records since their first claim: one that 95 and one that 99 of 100 records do
	// not exceed, and that of the oldest. Without pending records they are 0.
	PendingAges(ctx context.Context) (p95, p99, oldest time.Duration, err error)
}

// WatchStore reads what the store holds when metrics are collected: the number of records by state, bytes, the ages of
// pending records, and how many records there will be in the long run. Collecting waits two seconds for a reading; if it
// takes longer it goes on in the background, and meanwhile the one before is shown. Call stop before the store is closed;
// it ends a reading that is under way. WatchStore returns an error if the MeterProvider does not make an instrument.
//
// Ages come from PendingAges if the store is a PendingAger; otherwise from the newest 1000 pending records, and the metric
// retrysafe.pending.unread says how many older ones are left out.
func WatchStore(i retrysafe.Inspector, o WatchOptions) (stop func() error, err error) {
	m := meterOf(o.MeterProvider)
	gauges := newStoreGauges(m)
	w := &watch[reading]{
		what:    "the store",
		options: o.withDefaults(),
		read:    func(ctx context.Context) (reading, error) { return read(ctx, i) },
		show:    gauges.show,
	}
	return w.start(m, gauges.all())
}
