package otelsafe

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
)

// PendingAger is implemented by stores that can compute the ages of pending records without listing them.
type PendingAger interface {
	// PendingAges returns the 95th and the 99th percentile of the ages of pending records, counted from their first
	// claim, and the age of the oldest. They are 0 if there are no pending records. It returns an error if the store
	// failed.
	PendingAges(ctx context.Context) (p95, p99, oldest time.Duration, err error)
}

// WatchStore reads what the store holds when metrics are collected: the number of records by state, bytes, the ages
// of pending records, and an estimate of how many records there will be in the long run. Collecting waits two seconds
// for a reading; a longer one continues in the background, and the previous one is exported meanwhile. Call stop
// before the store is closed; it ends a running reading, and its error is that of unregistering. WatchStore returns
// the error of the MeterProvider if it cannot create an instrument.
//
// Ages come from PendingAges if the store is a PendingAger; otherwise from the newest 1000 pending records, and the
// metric retrysafe.pending.unread is the number of older ones, which are left out.
//
// Of a store that is a retrysafe.FullScanner and scans fully, it exports what a retrysafe.Sizer knows: entries and
// bytes. The rest takes scans: see WatchOptions.ScanEvery. If the store is no Sizer, and ScanEvery is not set,
// WatchStore exports nothing.
func WatchStore(i retrysafe.Inspector, o WatchOptions) (stop func() error, err error) {
	m := meterOf(o.MeterProvider)
	gauges := newStoreGauges(m)
	if scansFully(i) {
		return watchScanner(m, gauges, i, o)
	}
	w := &watch[reading]{
		what:    "the store",
		options: o.withDefaults(),
		read:    func(ctx context.Context) (reading, error) { return read(ctx, i, o) },
		show:    gauges.show,
	}
	return w.start(m, gauges.all())
}
