package otelsafe

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storestats"
)

// scansFully reports whether counting the records of a store means reading all of them.
func scansFully(s any) bool {
	scanner, ok := retrysafe.As[retrysafe.FullScanner](s)
	return ok && scanner.ScansFully()
}

// size is what a server knows of its store.
type size struct{ entries, bytes int64 }

// watchScanner watches a store that scans fully: its size at each reading, and its records at each scan.
func watchScanner(m *maker, g storeGauges, i retrysafe.Inspector, o WatchOptions) (stop func() error, err error) {
	noScan := func() error { return nil }
	stopScans, scanFailed := noScan, func() bool { return false }
	if o.ScanEvery > 0 {
		scans := o
		scans.Every, scans.Timeout = o.ScanEvery, o.ScanEvery
		w := &watch[reading]{
			what:     "all records of the store",
			options:  scans.withDefaults(),
			unwaited: true,
			read:     func(ctx context.Context) (reading, error) { return scan(ctx, i, o.UnknownRecordFunc) },
			show:     g.showScan,
		}
		if stopScans, err = w.start(m, g.ofScan()); err != nil {
			return nil, err
		}
		scanFailed = w.hasFailed
	}
	sizer, ok := retrysafe.As[retrysafe.Sizer](i)
	if !ok {
		return stopScans, nil
	}
	w := &watch[size]{
		what:    "the store",
		options: o.withDefaults(),
		read: func(ctx context.Context) (s size, err error) {
			s.entries, s.bytes, err = sizer.Size(ctx)
			return s, err
		},
		show: func(to metric.Observer, s size, at time.Time, failed bool) {
			g.showSize(to, s, at, failed, scanFailed())
		},
	}
	stopSizes, err := w.start(m, g.ofSize())
	if err != nil {
		return nil, errors.Join(err, stopScans())
	}
	return func() error { return errors.Join(stopSizes(), stopScans()) }, nil
}

// hasFailed reports whether the last reading failed.
func (w *watch[T]) hasFailed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// maxAges is how many pending records a scan keeps the ages of: 8 MB. The ages of further ones are left out.
const maxAges = 1 << 20

// scan reads all records, without those that the store cannot read, such as those of a newer version.
func scan(ctx context.Context, i retrysafe.Inspector, isUnknown func(retrysafe.Record) bool) (r reading, err error) {
	var ages []time.Duration
	var newest storestats.Newest
	err = retrysafe.Walk(ctx, i, func(one retrysafe.Record) error {
		switch one.State {
		case retrysafe.Pending:
			r.stats.Pending++
			if one.LeaseLeft <= 0 {
				r.stats.Abandoned++
				if isUnknown == nil || isUnknown(one) {
					r.unknown++
				}
			}
			if len(ages) < maxAges {
				ages = append(ages, one.Age)
			} else {
				r.unread++
			}
		case retrysafe.Released:
			r.stats.Released++
		case retrysafe.Succeeded:
			r.stats.Succeeded++
		case retrysafe.Failed:
			r.stats.Failed++
		}
		newest.Add(one)
		return ctx.Err()
	})
	if err != nil && !errors.Is(err, retrysafe.ErrUnreadable) {
		return reading{}, err
	}
	slices.Sort(ages)
	r.ages = quantilesOf(ages)
	r.projected = newest.Project()
	return r, nil
}
