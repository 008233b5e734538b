package otelsafe

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storestats"
)

// reading is what a store held at one moment.
type reading struct {
	stats     retrysafe.Stats
	unknown   int64                    // those of the abandoned records whose outcome is unknown
	ages      map[string]time.Duration // by quantile
	unread    int64
	projected int64 // -1: not known
}

func read(ctx context.Context, i retrysafe.Inspector, o WatchOptions) (reading, error) {
	stats, err := i.Stats(ctx)
	if err != nil {
		return reading{}, err
	}
	r := reading{stats: stats, unknown: stats.Abandoned}
	if o.UnknownFunc != nil && stats.Abandoned > 0 {
		if r.unknown, err = o.UnknownFunc(ctx); err != nil {
			return reading{}, err
		}
		r.unknown = min(r.unknown, stats.Abandoned)
	}
	if r.ages, r.unread, err = pendingAges(ctx, i, stats.Pending); err != nil {
		return reading{}, err
	}
	newest, err := i.List(ctx, retrysafe.ListParams{Limit: storestats.Sampled})
	if err != nil {
		return reading{}, err
	}
	r.projected = storestats.Project(newest)
	return r, nil
}

// states returns the number of records by state. Pending ones are divided by whether their lease still runs.
func (r reading) states() map[string]int64 {
	return map[string]int64{
		"in_flight":   r.stats.Pending - r.stats.Abandoned,
		"abandoned":   r.unknown,
		"uncommitted": r.stats.Abandoned - r.unknown,
		"released":    r.stats.Released,
		"succeeded":   r.stats.Succeeded,
		"failed":      r.stats.Failed,
	}
}

// pendingAges returns the ages of pending records by quantile, and how many pending records were not read.
func pendingAges(ctx context.Context, i retrysafe.Inspector, pending int64) (map[string]time.Duration, int64, error) {
	if ager, ok := retrysafe.As[PendingAger](i); ok {
		p95, p99, oldest, err := ager.PendingAges(ctx)
		return quantiles(p95, p99, oldest), 0, err
	}
	found, err := i.List(ctx, retrysafe.ListParams{State: retrysafe.Pending, Limit: storestats.Sampled})
	if err != nil {
		return nil, 0, err
	}
	ages := make([]time.Duration, len(found))
	for n, r := range found { // the newest first, so ages ascend
		ages[n] = r.Age
	}
	unread := int64(0)
	if len(found) >= storestats.Sampled { // otherwise what Stats counts beyond it has expired, or came and went meanwhile
		unread = max(pending-int64(len(found)), 0)
	}
	return quantilesOf(ages), unread, nil
}

// quantilesOf returns those of ascending ages.
func quantilesOf(ages []time.Duration) map[string]time.Duration {
	return quantiles(storestats.Quantile(ages, 0.95), storestats.Quantile(ages, 0.99), storestats.Quantile(ages, 1))
}

func quantiles(p95, p99, oldest time.Duration) map[string]time.Duration {
	return map[string]time.Duration{"0.95": p95, "0.99": p99, "1": oldest}
}
