package otelsafe

import (
	"context"
	"math"
	"time"

	"github.com/retrysafe/retrysafe"
)

// reading is what a store held at one moment.
type reading struct {
	stats     retrysafe.Stats
	unknown   int64                    // those of the abandoned records whose outcome is unknown
	ages      map[string]time.Duration // by quantile
	unread    int64
	projected int64 // -1: not known
}

// sampled is how many records are listed for an estimate: the most that a store lists at once.
const sampled = 1000

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
	newest, err := i.List(ctx, retrysafe.ListParams{Limit: sampled})
	if err != nil {
		return reading{}, err
	}
	r.projected = project(newest)
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
	found, err := i.List(ctx, retrysafe.ListParams{State: retrysafe.Pending, Limit: sampled})
	if err != nil {
		return nil, 0, err
	}
	ages := make([]time.Duration, len(found))
	for n, r := range found { // the newest first, so ages ascend
		ages[n] = r.Age
	}
	unread := int64(0)
	if len(found) >= sampled { // otherwise what Stats counts beyond it has expired, or came and went meanwhile
		unread = max(pending-int64(len(found)), 0)
	}
	return quantiles(rank(ages, 0.95), rank(ages, 0.99), rank(ages, 1)), unread, nil
}

func quantiles(p95, p99, oldest time.Duration) map[string]time.Duration {
	return map[string]time.Duration{"0.95": p95, "0.99": p99, "1": oldest}
}

// rank returns the quantile q of ascending ages; 0 if there are none.
func rank(ages []time.Duration, q float64) time.Duration {
	if len(ages) == 0 {
		return 0
	}
	return ages[max(int(math.Ceil(q*float64(len(ages)))), 1)-1]
}

// project estimates how many records there will be if records keep arriving at the rate of the newest ones, and are
// kept as long as those of them that have ended. It returns -1 if none of them has ended.
func project(newest []retrysafe.Record) int64 {
	if len(newest) == 0 {
		return 0
	}
	var kept, ended float64 // seconds, records
	span := time.Second
	for _, r := range newest {
		span = max(span, r.Age)
		if r.State.Ended() {
			kept += r.Age.Seconds() + max(r.KeyLeft, r.AuditLeft).Seconds()
			ended++
		}
	}
	if ended == 0 {
		return -1
	}
	perSecond := float64(len(newest)) / span.Seconds()
	return int64(math.Round(perSecond * kept / ended))
}
